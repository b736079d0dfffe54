{{/* Values that are fine alone and cannot work together: all of them are told at once. */}}
{{- define "jobqueue.refuseFaults" -}}
{{- $lines := list }}
{{- range list "jobqueue.databaseFaults" "jobqueue.variableFaults" "jobqueue.serverFaults" "jobqueue.poolFaults" "jobqueue.tlsFaults" }}
{{- range include . $ | splitList "\n" }}
{{- with trim . }}{{ $lines = append $lines . }}{{ end }}
{{- end }}
{{- end }}
{{- if $lines }}
{{- fail (printf "these values cannot work:\n  - %s" (join "\n  - " $lines)) }}
{{- end }}
{{- end }}

{{- define "jobqueue.databaseFaults" -}}
{{- $given := or .Values.existingSecret .Values.secret }}
{{- range $name, $_ := merge (dict) .Values.config .Values.server.config }}
{{- if hasPrefix "JQ_DB_" $name }}{{ $given = true }}{{ end }}
{{- end }}
{{- range .Values.server.extraEnv }}
{{- if hasPrefix "JQ_DB_" .name }}{{ $given = true }}{{ end }}
{{- end }}
{{- if not $given }}
existingSecret: is needed: a Secret with JQ_DB_URL (or JQ_DB_* in config and server.extraEnv)
{{- end }}
{{- if and .Values.existingSecret .Values.secret }}
secret: contradicts existingSecret: give one of them
{{- end }}
{{- end }}

{{/* What must not be among variables: what other values say, secrets in plain sight, and for workers
     what checks the half of a login that they have, such as a mechanism without its password. */}}
{{- define "jobqueue.variableFaults" -}}
{{- $homes := include "jobqueue.ownVariables" . | fromYaml }}
{{- $secrets := include "jobqueue.secretVariables" . | fromYamlArray }}
{{- range $where, $names := include "jobqueue.givenVariables" . | fromJson }}
{{- range $name := $names }}
{{- if hasKey $homes $name }}
{{ $where }}.{{ $name }}: is not set there but by {{ get $homes $name }}
{{- else if and (hasSuffix "config" $where) (has $name $secrets) }}
{{ $where }}.{{ $name }}: is a secret: it belongs into existingSecret
{{- else if and (hasSuffix "config" $where) (ne $where "server.config") (regexMatch "^JQ_(KAFKA|REDIS|AUTH)_" $name) }}
{{ $where }}.{{ $name }}: is for servers alone, and may stop workers: it belongs into server.config
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{/* The names of all variables in values, by where they are given; as JSON. */}}
{{- define "jobqueue.givenVariables" -}}
{{- $given := dict "config" (keys .Values.config) "secret" (keys .Values.secret) }}
{{- $parts := dict "server" .Values.server "worker" .Values.worker }}
{{- range .Values.pools }}{{ $_ := set $parts (printf "pools.%s" .name) . }}{{ end }}
{{- range $where, $part := $parts }}
{{- $_ := set $given (printf "%s.config" $where) (keys ($part.config | default dict)) }}
{{- $names := list }}
{{- range $part.extraEnv }}{{ $names = append $names .name }}{{ end }}
{{- $_ := set $given (printf "%s.extraEnv" $where) $names }}
{{- end }}
{{- toJson $given }}
{{- end }}

{{/* Variables that follow from other values. A test compares them with those that templates set. */}}
{{- define "jobqueue.ownVariables" -}}
JQ_GRPC_PORT: the chart (50051)
JQ_HEALTH_PORT: the chart (8080, 8081)
JQ_METRICS_PORT: the chart (9090, 9091)
JQ_SCALER_PORT: server.scaler.enabled
JQ_SCALER_TLS: server.scaler.tls
JQ_GRPC_TLS_ENABLED: tls.enabled
JQ_GRPC_TLS_CERT_PATH: tls
JQ_GRPC_TLS_KEY_PATH: tls
JQ_GRPC_TLS_CA_PATH: tls.clientCertificates
JQ_TLS_CA: tls
JQ_TLS_CERT: tls
JQ_TLS_KEY: tls
JQ_SERVER_ADDR: remote
JQ_WORKER_HANDLERS: handlers
JQ_WORKER_POD_DELETION_COST: podDeletionCost
JQ_WORKER_PROCESSES: replicas (one process in each pod, so that probes and metrics see it)
{{- end }}

{{- define "jobqueue.secretVariables" -}}
- JQ_API_KEY
- JQ_AUTH_API_KEYS
- JQ_AUTH_JWT_SECRET
- JQ_DB_PASSWORD
- JQ_DB_URL
- JQ_KAFKA_SASL_PASSWORD
- JQ_REDIS_PASSWORD
{{- end }}

{{- define "jobqueue.serverFaults" -}}
{{- $server := .Values.server }}
{{- if and $server.autoscaling.enabled (not (kindIs "invalid" $server.replicas)) }}
server.replicas: contradicts server.autoscaling.enabled
{{- end }}
{{- if gt (int $server.autoscaling.minReplicas) (int $server.autoscaling.maxReplicas) }}
server.autoscaling.minReplicas: is above maxReplicas
{{- end }}
{{- end }}

{{- define "jobqueue.poolFaults" -}}
{{- $seen := list }}
{{- $accounts := list }}
{{- range .Values.pools }}
{{- $pool := include "jobqueue.pool" (dict "root" $ "pool" .) | fromJson }}
{{- $scaling := $pool.autoscaling }}
{{- if has .name $seen }}
pools.{{ .name }}: is there twice
{{- end }}
{{- $seen = append $seen .name }}
{{- with $pool.serviceAccount }}
{{- if and .create .name (has .name $accounts) }}
pools.{{ $pool.name }}.serviceAccount.name: {{ .name }} is made by another pool
{{- end }}
{{- $accounts = append $accounts .name }}
{{- end }}
{{- if and (ne $scaling.type "none") (not (kindIs "invalid" $pool.replicas)) }}
pools.{{ .name }}.replicas: contradicts autoscaling.type {{ $scaling.type }}
{{- end }}
{{- if gt (include "jobqueue.minReplicas" $scaling | int) (int $scaling.maxReplicas) }}
pools.{{ .name }}.autoscaling.minReplicas: is above maxReplicas
{{- end }}
{{- if and (eq $scaling.type "hpa") (eq (include "jobqueue.minReplicas" $scaling) "0") }}
pools.{{ .name }}.autoscaling.minReplicas: an hpa cannot scale to 0; keda can
{{- end }}
{{- if and (eq $scaling.type "keda") (not $.Values.server.scaler.enabled) }}
pools.{{ .name }}.autoscaling.type: keda asks the server's scaler: set server.scaler.enabled
{{- end }}
{{- if and $.Values.secret (not $pool.existingSecret) (not $pool.remote) }}
{{- range $pool.secretKeys }}
{{- if not (hasKey $.Values.secret .) }}
pools.{{ $pool.name }}.secretKeys.{{ . }}: is not in secret
{{- end }}
{{- end }}
{{- end }}
{{- if not (or $pool.handlers (include "jobqueue.otherHandlers" (dict "root" $ "pool" $pool))) }}
pools.{{ .name }}.handlers: is needed (or JQ_WORKER_COMMANDS or JQ_WORKER_ALLOW_SHELL in config): a worker without anything to run does not start
{{- end }}
{{- range $pool.extraEnv }}
{{- if and $pool.remote (hasPrefix "JQ_DB_" .name) }}
pools.{{ $pool.name }}.extraEnv.{{ .name }}: a remote pool must not know the database
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{/* The variables of a pool that give it something to run without handlers. Takes {root, pool}. */}}
{{- define "jobqueue.otherHandlers" -}}
{{- $names := concat (keys .root.Values.config) (keys .pool.config) }}
{{- range .pool.extraEnv }}{{ $names = append $names .name }}{{ end }}
{{- range list "JQ_WORKER_COMMANDS" "JQ_WORKER_ALLOW_SHELL" }}
{{- if has . $names }}{{ . }} {{ end }}
{{- end }}
{{- end }}

{{- define "jobqueue.tlsFaults" -}}
{{- $tls := .Values.tls }}
{{- $scaler := .Values.server.scaler }}
{{- if and $scaler.enabled (ne $scaler.tls "off") (not $tls.enabled) }}
server.scaler.tls: needs tls.enabled, whose certificate it serves
{{- end }}
{{- if $tls.enabled }}
{{- if and $scaler.enabled (eq $scaler.tls "mutual") (not $tls.clientCertificates) }}
server.scaler.tls: mutual needs tls.clientCertificates
{{- end }}
{{- if and $tls.existingSecret $tls.certManager.enabled }}
tls.existingSecret: contradicts tls.certManager.enabled
{{- end }}
{{- if not (or $tls.existingSecret $tls.certManager.enabled) }}
tls.enabled: needs tls.existingSecret or tls.certManager.enabled
{{- end }}
{{- if and $tls.certManager.enabled (not $tls.certManager.issuerRef.name) }}
tls.certManager.issuerRef.name: is needed
{{- end }}
{{- if and $tls.existingSecret (not $tls.existingClientSecret) (include "jobqueue.tlsClients" .) }}
tls.existingClientSecret: is needed by {{ include "jobqueue.tlsClients" . | trim }}
{{- end }}
{{- end }}
{{- end }}
