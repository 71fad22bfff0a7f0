{{/* Labels of an object: its own, and those of custom.common_labels. Arguments: root, labels. Empty without any. */}}
{{- define "kilauea.labels" -}}
{{- $labels := merge (dict) (.labels | default dict) (.root.Values.custom.common_labels | default dict) -}}
{{- with $labels -}}
labels:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{/* Label of the ConfigMaps, so that `kubectl apply` can leave out those that a cluster has: see docs/howto/install.md. */}}
{{- define "kilauea.configuration" -}}
{{- include "kilauea.labels" (dict "root" . "labels" (dict "kilauea.dev/part" "configuration")) }}
{{- end }}

{{/* A value of one component, else that of all. Arguments: root, component, name; the result is YAML. */}}
{{- define "kilauea.either" -}}
{{- $custom := .root.Values.custom -}}
{{- $value := index $custom (printf "%s_%s" .component .name) | default (index $custom (printf "default_%s" (.name | trimPrefix "main_"))) -}}
{{- with $value }}{{ toYaml . }}{{ end }}
{{- end }}

{{/* Head of the spec of a Deployment, up to its pods. Arguments: root, component, app. */}}
{{- define "kilauea.deployment" -}}
{{- $custom := .root.Values.custom -}}
{{- $replicas := index $custom (printf "%s_replicas" .component) -}}
replicas: {{ $replicas }}
{{- if and (gt (int $replicas) 1) (not $custom.leader_elect_enable) (ne .component "admission") }}
{{- fail (printf "custom.%s_replicas is %d: with more than one, custom.leader_elect_enable must be true, or all of them work at once" .component (int $replicas)) }}
{{- end }}
revisionHistoryLimit: 3
strategy:
  {{- if or $custom.leader_elect_enable (eq .component "admission") }}
  type: RollingUpdate
  {{- else }}
  # Without a lease, an old pod must be gone before a new one starts.
  type: Recreate
  {{- end }}
selector:
  matchLabels:
    app: {{ .app }}
{{- end }}

{{/* Everything in the spec of a component's pods but containers and volumes. Arguments: root, component, app, account. */}}
{{- define "kilauea.pod" -}}
{{- $custom := .root.Values.custom -}}
serviceAccountName: {{ .account }}
{{- with $custom.priority_class_name }}
priorityClassName: {{ . }}
{{- end }}
{{- with .root.Values.basic.image_pull_secret }}
imagePullSecrets:
  - name: {{ . }}
{{- end }}
{{- range $name, $field := dict "sc" "securityContext" "ns" "nodeSelector" "tolerations" "tolerations" "affinity" "affinity" }}
{{- with include "kilauea.either" (dict "root" $.root "component" $.component "name" $name) }}
{{ $field }}:
  {{- . | nindent 2 }}
{{- end }}
{{- end }}
topologySpreadConstraints:
  - maxSkew: 1
    topologyKey: kubernetes.io/hostname
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      matchLabels:
        app: {{ .app }}
{{- end }}

{{/* Image, resources and security of a component's container. Arguments: root, component. */}}
{{- define "kilauea.container" -}}
{{- $basic := .root.Values.basic -}}
{{- $name := index $basic (printf "%s_image_name" .component) -}}
{{- if hasPrefix "volcanosh/" $name }}
{{- fail (printf "basic.%s_image_name is %s, an image of Volcano: remove it from your values, or name an image of Kilauea" .component $name) }}
{{- end }}
{{- $tag := index $basic (printf "%s_image_tag_version" .component) | default $basic.image_tag_version | default .root.Chart.AppVersion -}}
image: {{ with $basic.image_registry }}{{ trimSuffix "/" . }}/{{ end }}{{ $name }}:{{ $tag }}
imagePullPolicy: {{ $basic.image_pull_policy }}
{{- with index .root.Values.custom (printf "%s_resources" .component) }}
resources:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with include "kilauea.either" (dict "root" .root "component" .component "name" "main_csc") }}
securityContext:
  {{- . | nindent 2 }}
{{- end }}
{{- end }}

{{/* Probes of a container. Arguments: port, scheme. */}}
{{- define "kilauea.probes" -}}
{{- range $probe, $path := dict "livenessProbe" "/healthz" "readinessProbe" "/readyz" "startupProbe" "/healthz" }}
{{ $probe }}:
  httpGet:
    path: {{ $path }}
    port: {{ $.port }}
    scheme: {{ $.scheme }}
  {{- if eq $probe "startupProbe" }}
  periodSeconds: 2
  failureThreshold: 60
  {{- else if eq $probe "livenessProbe" }}
  periodSeconds: 10
  timeoutSeconds: 5
  failureThreshold: 6
  {{- else }}
  periodSeconds: 5
  timeoutSeconds: 3
  failureThreshold: 2
  {{- end }}
{{- end }}
{{- end }}

{{/* The flags of leader election. */}}
{{- define "kilauea.election" -}}
- --leader-elect={{ .Values.custom.leader_elect_enable }}
{{- if .Values.custom.leader_elect_enable }}
- --leader-elect-resource-namespace={{ .Release.Namespace }}
{{- end }}
{{- end }}

{{/* Families of the addresses of a Service. */}}
{{- define "kilauea.families" -}}
{{- with .Values.service.ipFamilyPolicy }}
ipFamilyPolicy: {{ . }}
{{- end }}
{{- with .Values.service.ipFamilies }}
ipFamilies:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}
