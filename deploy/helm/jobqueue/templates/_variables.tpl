{{/* Variables that the chart sets by itself, over those of `config`. _faults.tpl refuses them in values. */}}

{{/* Of the server, as JSON. */}}
{{- define "jobqueue.serverEnv" -}}
{{- $env := deepCopy .Values.server.config }}
{{- if .Values.server.scaler.enabled }}
{{- $_ := set $env "JQ_SCALER_PORT" "50052" }}
{{- $_ := set $env "JQ_SCALER_TLS" .Values.server.scaler.tls }}
{{- end }}
{{- if .Values.tls.enabled }}
{{- $folder := include "jobqueue.tlsFolder" . }}
{{- $_ := set $env "JQ_GRPC_TLS_ENABLED" "true" }}
{{- $_ := set $env "JQ_GRPC_TLS_CERT_PATH" (printf "%s/tls.crt" $folder) }}
{{- $_ := set $env "JQ_GRPC_TLS_KEY_PATH" (printf "%s/tls.key" $folder) }}
{{- if .Values.tls.clientCertificates }}
{{- $_ := set $env "JQ_GRPC_TLS_CA_PATH" (printf "%s/ca.crt" $folder) }}
{{- end }}
{{- end }}
{{- toJson $env }}
{{- end }}

{{/* The whole `env` of the server's container. */}}
{{- define "jobqueue.serverVariables" -}}
{{- include "jobqueue.env" (include "jobqueue.serverEnv" . | fromJson) | trim }}
{{- with .Values.server.extraEnv }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* Of a pool, as JSON. Takes {root, pool}. */}}
{{- define "jobqueue.workerEnv" -}}
{{- $env := deepCopy .pool.config }}
{{- if .pool.podDeletionCost }}
{{- $_ := set $env "JQ_WORKER_POD_DELETION_COST" "true" }}
{{- end }}
{{- if .pool.remote }}
{{- $env = include "jobqueue.withoutDatabase" $env | fromJson }}
{{- $_ := set $env "JQ_SERVER_ADDR" (printf "%s:50051" (include "jobqueue.serverHost" .root)) }}
{{- if .root.Values.tls.enabled }}
{{- $folder := include "jobqueue.tlsFolder" . }}
{{- $_ := set $env "JQ_TLS_CA" (printf "%s/ca.crt" $folder) }}
{{- if .root.Values.tls.clientCertificates }}
{{- $_ := set $env "JQ_TLS_CERT" (printf "%s/tls.crt" $folder) }}
{{- $_ := set $env "JQ_TLS_KEY" (printf "%s/tls.key" $folder) }}
{{- end }}
{{- end }}
{{- end }}
{{- toJson $env }}
{{- end }}

{{/* The whole `env` of a pool's container. Takes {root, pool}. */}}
{{- define "jobqueue.workerVariables" -}}
{{- include "jobqueue.env" (include "jobqueue.workerEnv" . | fromJson) | trim }}
{{- $secret := include "jobqueue.secret" .root }}
{{- if and $secret (not .pool.existingSecret) (not .pool.remote) }}
{{- range .pool.secretKeys }}
- name: {{ . }}
  valueFrom: {secretKeyRef: {name: {{ $secret }}, key: {{ . }}}}
{{- end }}
{{- end }}
{{- if .pool.podDeletionCost }}
- name: POD_NAME
  valueFrom: {fieldRef: {fieldPath: metadata.name}}
- name: POD_NAMESPACE
  valueFrom: {fieldRef: {fieldPath: metadata.namespace}}
{{- end }}
{{- with .pool.extraEnv }}
{{ toYaml . }}
{{- end }}
{{- end }}
