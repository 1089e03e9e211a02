{{/* One line of text as the value of an option: a dollar stays a dollar, and no value begins a line of its own. */}}
{{- define "berth.value" -}}
{{- . | toString | replace "$" "$$" | replace "\r" " " | replace "\n" " " -}}
{{- end -}}

{{- define "berth.labels" -}}
app.kubernetes.io/name: {{ .Chart.Name | quote }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end -}}

{{- define "berth.ini" -}}
[agent]
listen = 0.0.0.0:{{ .Values.berth.port }}

[registry]
url = {{ include "berth.value" .Values.registry.url }}
{{- if .Values.berth.existingSecret }}
auth = digest
auth_file = /run/secrets/berth/registry-auth
{{- end }}

[component]
user = {{ include "berth.value" .Values.component.user }}
service_class = {{ include "berth.value" .Values.component.serviceClass }}
instance = {{ include "berth.value" .Values.component.instance }}
{{- if .Values.component.description }}
description = {{ include "berth.value" .Values.component.description }}
{{- end }}
{{- range $name, $value := .Values.component.attributes }}
attribute.{{ $name }} = {{ include "berth.value" $value }}
{{- end }}

[endpoint http]
api = {{ include "berth.value" .Values.endpoint.api }}
protocol = {{ include "berth.value" .Values.endpoint.protocol }}
address_type = uri
address = {{ include "berth.value" .Values.endpoint.scheme }}://${POD_IP}:{{ .Values.server.port }}/

[check http]
type = http
target = http://127.0.0.1:{{ .Values.server.port }}{{ include "berth.value" .Values.check.path }}
interval = {{ include "berth.value" .Values.check.interval }}
timeout = {{ include "berth.value" .Values.check.timeout }}
fast_interval = 1s
{{- end -}}
