{{- define "dragoman.name" -}}
{{- if contains "dragoman" .Release.Name }}{{ .Release.Name | trunc 40 }}{{ else }}{{ printf "%s-dragoman" (.Release.Name | trunc 31) }}{{ end }}
{{- end }}

{{/* The labels of a component: (list $ "triton"). */}}
{{- define "dragoman.selector" -}}
app.kubernetes.io/name: dragoman
app.kubernetes.io/instance: {{ (index . 0).Release.Name }}
app.kubernetes.io/component: {{ index . 1 }}
{{- end }}

{{- define "dragoman.labels" -}}
{{ include "dragoman.selector" . }}
app.kubernetes.io/version: {{ (index . 0).Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ (index . 0).Release.Service }}
helm.sh/chart: dragoman-{{ (index . 0).Chart.Version }}
{{- end }}

{{- define "dragoman.image" -}}
{{ .repository }}{{ if .digest }}@{{ .digest }}{{ else }}:{{ .tag }}{{ end }}
{{- end }}

{{/* Security context of a pod. */}}
{{- define "dragoman.podSecurity" -}}
runAsNonRoot: true
runAsUser: 10001
runAsGroup: 10001
fsGroup: 10001
fsGroupChangePolicy: OnRootMismatch
seccompProfile:
  type: RuntimeDefault
{{- end }}

{{/* Security context of a container. */}}
{{- define "dragoman.confined" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end }}

{{/* Spreads the pods of a component over zones and machines: (list $ "triton"). */}}
{{- define "dragoman.spread" -}}
{{- $of := . }}
{{- range list "topology.kubernetes.io/zone" "kubernetes.io/hostname" }}
- maxSkew: 1
  topologyKey: {{ . }}
  whenUnsatisfiable: ScheduleAnyway
  labelSelector:
    matchLabels:
      {{- include "dragoman.selector" $of | nindent 6 }}
  matchLabelKeys: [pod-template-hash]
{{- end }}
{{- end }}

{{/* Environment variables for a command's settings: (list "DRAGOMAN_" .Values.triton.settings). */}}
{{- define "dragoman.settings" -}}
{{- $prefix := index . 0 }}
{{- range $name, $value := index . 1 }}
- name: {{ $prefix }}{{ upper $name }}
  {{- if kindIs "slice" $value }}
  value: {{ join " " $value | quote }}
  {{- else if kindIs "string" $value }}
  value: {{ $value | quote }}
  {{- else }}
  value: {{ toJson $value | quote }}
  {{- end }}
{{- end }}
{{- end }}

{{/* After SIGTERM, Triton finishes requests for up to 30 s, the gateway for up to 35 s. */}}
{{- define "dragoman.graceSeconds" -}}
{{ add .Values.drainSeconds 45 }}
{{- end }}

{{- define "dragoman.scalingBehavior" -}}
scaleUp:
  stabilizationWindowSeconds: 0
  policies:
    - type: Percent
      value: 100
      periodSeconds: 15
scaleDown:
  stabilizationWindowSeconds: 300
  policies:
    - type: Pods
      value: 1
      periodSeconds: 60
{{- end }}
