{{/* What objects are called. 30 characters leave room for `-worker-` and a pool within 63. */}}
{{- define "jobqueue.fullname" -}}
{{- $name := .Values.fullnameOverride }}
{{- if not $name }}
{{- $name = .Release.Name }}
{{- if not (contains .Chart.Name $name) }}{{ $name = printf "%s-%s" $name .Chart.Name }}{{ end }}
{{- end }}
{{- $name | trunc 30 | trimSuffix "-" }}
{{- end }}

{{- define "jobqueue.server" -}}
{{ include "jobqueue.fullname" . }}-server
{{- end }}

{{/* The Deployment of a pool. Takes {root, pool}. */}}
{{- define "jobqueue.worker" -}}
{{ include "jobqueue.fullname" .root }}-worker{{ if ne .pool "default" }}-{{ .pool }}{{ end }}
{{- end }}

{{/* What a selector holds: nothing that values could change, because selectors cannot change.
     Takes {root, component, pool?}. */}}
{{- define "jobqueue.selector" -}}
app.kubernetes.io/name: jobqueue
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- with .pool }}
jobqueue/pool: {{ . }}
{{- end }}
{{- end }}

{{/* Labels of an object. Takes {root, component?, pool?}. */}}
{{- define "jobqueue.labels" -}}
{{- if .component }}
{{- include "jobqueue.selector" . }}
{{- else -}}
app.kubernetes.io/name: jobqueue
app.kubernetes.io/instance: {{ .root.Release.Name }}
{{- end }}
app.kubernetes.io/part-of: jobqueue
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ .root.Chart.Name }}-{{ .root.Chart.Version | replace "+" "_" }}
{{- with .root.Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* Takes {account, made}: the values of a ServiceAccount, and what it is called when made here. */}}
{{- define "jobqueue.serviceAccountName" -}}
{{- .account.name | default (ternary .made "default" .account.create) }}
{{- end }}

{{/* Takes {root, image}. */}}
{{- define "jobqueue.image" -}}
{{- $shared := .root.Values.image }}
{{- with $shared.registry }}{{ . }}/{{ end }}{{ .image.repository }}
{{- if .image.digest }}@{{ .image.digest }}
{{- else }}:{{ .image.tag | default $shared.tag | default .root.Chart.AppVersion }}
{{- end }}
{{- end }}

{{/* What a pool has: the values of `worker`, and over them its own. Takes {root, pool}; gives JSON. */}}
{{- define "jobqueue.pool" -}}
{{ mergeOverwrite (deepCopy .root.Values.worker) (deepCopy .pool) | toJson }}
{{- end }}
