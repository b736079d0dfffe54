{{/* Parts of pods. Those that take {root, values} take the values of a server or of a pool. */}}

{{- define "jobqueue.podMetadata" -}}
labels:
  {{- include "jobqueue.selector" . | nindent 2 }}
  app.kubernetes.io/part-of: jobqueue
  app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
  {{- with .root.Values.commonLabels }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
  {{- with .values.podLabels }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
annotations:
  # Settings are read at start: pods follow a change only when they are replaced.
  checksum/config: {{ toJson .root.Values.config | sha256sum }}
  {{- if and .root.Values.secret (not .values.existingSecret) }}
  checksum/secret: {{ toJson .root.Values.secret | sha256sum }}
  {{- end }}
  {{- with .values.podAnnotations }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end }}

{{- define "jobqueue.podSecurity" -}}
# Service links would add variables that look like settings: JQ_SERVER_PORT.
enableServiceLinks: false
securityContext:
  {{- toYaml .Values.podSecurityContext | nindent 2 }}
{{- with .Values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{/* Takes {root, component, pool?, values}. */}}
{{- define "jobqueue.placement" -}}
{{- with .values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with .values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .values.affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- if .values.topologySpreadConstraints }}
topologySpreadConstraints:
  {{- range .values.topologySpreadConstraints }}
  - {{ toYaml . | nindent 4 | trim }}
    labelSelector:
      matchLabels:
        {{- include "jobqueue.selector" (omit $ "values") | nindent 8 }}
  {{- end }}
{{- end }}
{{- end }}

{{/* Image and security of a container. Takes {root, image}. */}}
{{- define "jobqueue.container" -}}
image: {{ include "jobqueue.image" . }}
imagePullPolicy: {{ .root.Values.image.pullPolicy }}
securityContext:
  {{- toYaml .root.Values.securityContext | nindent 2 }}
{{- end }}

{{/* Takes the timing of the three probes. */}}
{{- define "jobqueue.probes" -}}
startupProbe:
  httpGet: {path: /healthz, port: health}
  {{- toYaml .startup | nindent 2 }}
readinessProbe:
  httpGet: {path: /readyz, port: health}
  {{- toYaml .readiness | nindent 2 }}
livenessProbe:
  httpGet: {path: /healthz, port: health}
  {{- toYaml .liveness | nindent 2 }}
{{- end }}

{{/* Takes {values, tls}: whether certificates are mounted. */}}
{{- define "jobqueue.volumeMounts" -}}
volumeMounts:
  - {name: tmp, mountPath: /tmp}
  {{- if .tls }}
  - {name: tls, mountPath: {{ include "jobqueue.tlsFolder" . }}, readOnly: true}
  {{- end }}
  {{- with .values.extraVolumeMounts }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end }}

{{/* Takes {values, tls}: the Secret with certificates, or nothing. */}}
{{- define "jobqueue.volumes" -}}
volumes:
  - name: tmp
    emptyDir: {sizeLimit: {{ .values.tmpSizeLimit }}}
  {{- with .tls }}
  - name: tls
    # Readable by the group of the pod, which is fsGroup.
    secret: {secretName: {{ . }}, defaultMode: 0440}
  {{- end }}
  {{- with .values.extraVolumes }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end }}
