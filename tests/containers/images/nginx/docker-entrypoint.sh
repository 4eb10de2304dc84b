#!/bin/sh
# As the entrypoint of NGINX's own image: fill variables into the templates, then run the command.
set -e
names=$(env | cut -d= -f1 | grep -E "$NGINX_ENVSUBST_FILTER" | sed 's/.*/${&}/' | tr '\n' ' ')
for template in /etc/nginx/templates/*.template; do
    envsubst "$names" < "$template" > "$NGINX_ENVSUBST_OUTPUT_DIR/$(basename "$template" .template)"
done
exec "$@"
