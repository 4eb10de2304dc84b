// Validates custom resources of Kubernetes: a JSON array on stdin, messages on stdout.
// An object of a kind without a schema here is an error, so that none is unchecked.
import { readFileSync } from "node:fs";

const KINDS = {
  "keda.sh/v1alpha1/ScaledObject": "keda/keda.sh/v1alpha1/ScaledObject.js",
  "gateway.networking.k8s.io/v1/HTTPRoute": "gateway-api/gateway.networking.k8s.io/v1/HTTPRoute.js",
  "monitoring.coreos.com/v1/ServiceMonitor": "prometheus-operator/monitoring.coreos.com/v1/ServiceMonitor.js",
  "monitoring.coreos.com/v1/PodMonitor": "prometheus-operator/monitoring.coreos.com/v1/PodMonitor.js",
  "monitoring.coreos.com/v1/PrometheusRule": "prometheus-operator/monitoring.coreos.com/v1/PrometheusRule.js",
};

const [, , modules] = process.argv;
const messages = [];
for (const object of JSON.parse(readFileSync(0, "utf8"))) {
  const kind = `${object.apiVersion}/${object.kind}`;
  try {
    if (!(kind in KINDS)) throw new Error("no schema");
    const { [object.kind]: Model } = await import(`${modules}/@kubernetes-models/${KINDS[kind]}`);
    new Model(object).validate();
  } catch (error) {
    messages.push(`${kind}: ${error.message}`);
  }
}
console.log(JSON.stringify(messages));
