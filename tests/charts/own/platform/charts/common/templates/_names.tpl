{{- define "common.labels" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}
{{- define "common.annotations" -}}
checksum/config: {{ toYaml .Values | sha256sum }}
{{- end }}
