{{/* A value as a variable has it: large numbers in full, not as 1e+07. */}}
{{- define "jobqueue.text" -}}
{{- if kindIs "string" . }}{{ . }}{{ else }}{{ toJson . }}{{ end }}
{{- end }}

{{/* `data` of a ConfigMap, `stringData` of a Secret. Takes a map of variables. */}}
{{- define "jobqueue.variables" -}}
{{- if not . }}{}{{ end }}
{{- range $name, $value := . }}
{{ $name }}: {{ include "jobqueue.text" $value | quote }}
{{- end }}
{{- end }}

{{/* Variables of a container from a map. */}}
{{- define "jobqueue.env" -}}
{{- range $name, $value := . }}
- name: {{ $name }}
  value: {{ include "jobqueue.text" $value | quote }}
{{- end }}
{{- end }}

{{/* The value of a setting in force. Takes {root, values, name, default}. */}}
{{- define "jobqueue.setting" -}}
{{- $given := .default }}
{{- range list .root.Values.config .values.config }}
{{- if hasKey . $.name }}{{ $given = get . $.name }}{{ end }}
{{- end }}
{{- include "jobqueue.text" $given }}
{{- end }}

{{- define "jobqueue.configMap" -}}
{{ include "jobqueue.fullname" . }}-config
{{- end }}

{{/* The ConfigMap of a pool: a remote one must not know the database. Takes {root, pool}. */}}
{{- define "jobqueue.poolConfigMap" -}}
{{ include "jobqueue.configMap" .root }}{{ if .pool.remote }}-remote{{ end }}
{{- end }}

{{/* Takes variables, gives those that are not about the database; as JSON. */}}
{{- define "jobqueue.withoutDatabase" -}}
{{- $kept := dict }}
{{- range $name, $value := . }}
{{- if not (hasPrefix "JQ_DB_" $name) }}{{ $_ := set $kept $name $value }}{{ end }}
{{- end }}
{{- toJson $kept }}
{{- end }}

{{/* The Secret of servers and migrations; of a pool without one of its own. */}}
{{- define "jobqueue.secret" -}}
{{- if .Values.existingSecret }}{{ .Values.existingSecret }}
{{- else if .Values.secret }}{{ include "jobqueue.fullname" . }}-secrets
{{- end }}
{{- end }}

{{/* Takes {configMap, secret}. */}}
{{- define "jobqueue.envFrom" -}}
- configMapRef: {name: {{ .configMap }}}
{{- with .secret }}
- secretRef: {name: {{ . }}}
{{- end }}
{{- end }}

{{/* Where certificates are. Servers read them again when they change, so the folder is mounted whole. */}}
{{- define "jobqueue.tlsFolder" -}}
/etc/jobqueue/tls
{{- end }}

{{- define "jobqueue.serverTlsSecret" -}}
{{ .Values.tls.existingSecret | default (printf "%s-tls" (include "jobqueue.server" .)) }}
{{- end }}

{{/* Who has a certificate of a client: the names of remote pools, and KEDA. */}}
{{- define "jobqueue.tlsClients" -}}
{{- include "jobqueue.remotePools" . }}
{{- if and .Values.server.scaler.enabled (eq .Values.server.scaler.tls "mutual") }}keda{{ end }}
{{- end }}

{{/* The Secret with their certificate. */}}
{{- define "jobqueue.clientTlsSecret" -}}
{{- if .Values.tls.certManager.enabled }}{{ include "jobqueue.fullname" . }}-worker-tls
{{- else }}{{ .Values.tls.existingClientSecret }}
{{- end }}
{{- end }}

{{/* An address of the servers that resolves to each of them, from any namespace. */}}
{{- define "jobqueue.serverHost" -}}
{{ include "jobqueue.server" . }}.{{ .Release.Namespace }}.svc
{{- end }}
