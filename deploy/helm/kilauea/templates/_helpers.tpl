{{/* Labels of every object but the definitions: `labels:` and what custom.common_labels says; empty without any. */}}
{{- define "kilauea.labels" -}}
{{- $labels := merge (dict) (.labels | default dict) (.root.Values.custom.common_labels | default dict) -}}
{{- with $labels }}
labels:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}
