{{/* Of a component: dict "root" $ "component" "receiver". */}}
{{- define "payhook.selector" -}}
app.kubernetes.io/name: payhook
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end }}

{{- define "payhook.labels" -}}
{{ include "payhook.selector" . }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ .root.Chart.Name }}-{{ .root.Chart.Version }}
{{- end }}

{{- define "payhook.name" -}}
{{ .Release.Name | trunc 40 | trimSuffix "-" }}
{{- end }}

{{- define "payhook.pod" -}}
serviceAccountName: {{ .Values.serviceAccount.name }}
automountServiceAccountToken: {{ .Values.serviceAccount.automount }}
enableServiceLinks: false
securityContext:
  runAsNonRoot: true
  runAsUser: 10001
  runAsGroup: 10001
  fsGroup: 10001
  fsGroupChangePolicy: OnRootMismatch
  seccompProfile: {type: RuntimeDefault}
{{- with .Values.image.pullSecrets }}
imagePullSecrets: {{ toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.nodeSelector }}
nodeSelector: {{ toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations: {{ toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- define "payhook.container" -}}
image: {{ printf "%s:%s" .Values.image.repository (.Values.image.tag | default .Chart.AppVersion) | quote }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: {drop: [ALL]}
{{- end }}

{{/* The workload of a shard: dict "mode" "live" "shard" 1. */}}
{{- define "payhook.processor" -}}
processor-{{ .mode }}{{ if .shard }}-shard{{ .shard }}{{ end }}
{{- end }}

{{/* Settings that every service is given; the rest is in payhook.toml. */}}
{{- define "payhook.env" -}}
{{- if mod .Values.topics.partitions .Values.processor.shards }}
{{- fail "topics.partitions must be a multiple of processor.shards" }}
{{- end -}}
- {name: PAYHOOK_CONFIG, value: /etc/payhook/payhook.toml}
- {name: PAYHOOK_KAFKA__BOOTSTRAP_SERVERS, value: {{ .Values.kafka.bootstrapServers | quote }}}
- {name: PAYHOOK_KAFKA__DURABILITY, value: {{ .Values.kafka.durability | quote }}}
- {name: PAYHOOK_KAFKA__RECORD_KEYS_FILE, value: /run/secrets/records/records}
- {name: PAYHOOK_KAFKA__EVENTS_PARTITIONS, value: {{ .Values.topics.partitions | quote }}}
- {name: PAYHOOK_PROCESSOR__SHARDS, value: {{ .Values.processor.shards | quote }}}
- {name: PAYHOOK_INGEST__TEST_TRAFFIC, value: {{ has "test" .Values.processor.modes | quote }}}
{{- end }}

{{- define "payhook.env.redis" -}}
- name: PAYHOOK_REDIS__URL
{{- if .Values.redis.urlSecret }}
  valueFrom: {secretKeyRef: {name: {{ .Values.redis.urlSecret }}, key: url}}
{{- else }}
  value: {{ .Values.redis.url | quote }}
{{- end }}
{{- end }}

{{/* Of services that read or write the lake. */}}
{{- define "payhook.env.lake" -}}
- {name: PAYHOOK_STORAGE__URL, value: {{ .Values.storage.url | quote }}}
- {name: PAYHOOK_STORAGE__ENDPOINT, value: {{ .Values.storage.endpoint | quote }}}
- {name: PAYHOOK_STORAGE__REGION, value: {{ .Values.storage.region | quote }}}
- {name: PAYHOOK_STORAGE__PATH_STYLE, value: {{ .Values.storage.pathStyle | quote }}}
- {name: PAYHOOK_STORAGE__ALLOW_HTTP, value: {{ .Values.storage.allowHttp | quote }}}
{{- if .Values.secrets.objectStore }}
- {name: PAYHOOK_STORAGE__CREDENTIALS_FILE, value: /run/secrets/object-store/object-store}
{{- end }}
- {name: PAYHOOK_PROCESSOR__ANCHOR_KEY_FILE, value: /run/secrets/anchors/anchors}
- {name: PAYHOOK_LEDGER__MERCHANTS_FILE, value: /etc/payhook/merchants.toml}
- {name: PAYHOOK_NOTIFY__SUBSCRIBERS_FILE, value: /etc/payhook/subscribers.toml}
- {name: PAYHOOK_NOTIFY__SECRETS_DIR, value: /run/secrets/notify}
{{- end }}

{{/* Of the management listener and the alerts: where the others answer. */}}
{{- define "payhook.env.others" -}}
{{- $name := include "payhook.name" . -}}
{{- $urls := dict "ingest" (printf "http://%s-receivers:9101/metrics" $name) "alerts" "http://127.0.0.1:9103/metrics" -}}
{{- range $mode := .Values.processor.modes -}}
{{- range $shard := until (int $.Values.processor.shards) -}}
{{- $process := ternary "processor" (printf "processor-%s" $mode) (eq $mode "live") -}}
{{- $process = ternary $process (printf "%s.%d" $process $shard) (eq $shard 0) -}}
{{- range $number := until (int $.Values.processor.replicas) -}}
{{- $workload := include "payhook.processor" (dict "mode" $mode "shard" $shard) -}}
{{- $pod := printf "%s-%s-%d.%s-processors" $name $workload $number $name -}}
{{- $_ := set $urls (ternary $process (printf "%s-%d" $process $number) (eq $number 0)) (printf "http://%s:9102/metrics" $pod) -}}
{{- end -}}
{{- end -}}
{{- end -}}
- {name: PAYHOOK_CONSOLE__INGEST_URL, value: "http://{{ $name }}-receiver:8080"}
- {name: PAYHOOK_CONSOLE__METRICS_URLS, value: {{ toJson $urls | quote }}}
{{- end }}

{{/* dict "root" $ "secrets" (list "receiver" "kafka"): volumes of those that are set. */}}
{{- define "payhook.volumes" -}}
{{- $root := .root -}}
- name: config
  configMap: {name: {{ include "payhook.name" $root }}-config}
- name: tmp
  emptyDir: {sizeLimit: 256Mi}
{{- range $secret := .secrets }}
{{- with index $root.Values.secrets $secret }}
- name: secret-{{ kebabcase $secret }}
  secret: {secretName: {{ . }}, defaultMode: 0440}
{{- end }}
{{- end }}
{{- end }}

{{- define "payhook.mounts" -}}
{{- $root := .root -}}
- {name: config, mountPath: /etc/payhook, readOnly: true}
- {name: tmp, mountPath: /tmp}
{{- range $secret := .secrets }}
{{- with index $root.Values.secrets $secret }}
- {name: secret-{{ kebabcase $secret }}, mountPath: /run/secrets/{{ kebabcase $secret }}, readOnly: true}
{{- end }}
{{- end }}
{{- end }}

{{/* Ports of one kind of destination: dict "to" [] "ports" []. */}}
{{- define "payhook.egress" -}}
- ports:
{{- range .ports }}
    - {port: {{ . }}, protocol: TCP}
{{- end }}
{{- with .to }}
  to: {{ toYaml . | nindent 4 }}
{{- end }}
{{- end }}
