{{/* What the pods of all components have. Takes the root, and the component's name. */}}
{{- define "convoy.labels" -}}
app.kubernetes.io/name: convoy
app.kubernetes.io/component: {{ . }}
{{- end }}

{{- define "convoy.image" -}}
image: {{ .Values.image.repository }}:{{ .Values.image.tag }}
{{- with .Values.image.pullPolicy }}
imagePullPolicy: {{ . }}
{{- end }}
{{- end }}

{{- define "convoy.pod-security" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
fsGroup: 65532
seccompProfile:
  type: RuntimeDefault
{{- end }}

{{- define "convoy.container-security" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end }}

{{- define "convoy.identity" -}}
- name: POD_NAME
  valueFrom:
    fieldRef:
      fieldPath: metadata.name
- name: POD_NAMESPACE
  valueFrom:
    fieldRef:
      fieldPath: metadata.namespace
{{- end }}

{{/* Takes the port's name and the scheme. */}}
{{- define "convoy.probes" -}}
startupProbe:
  httpGet: {path: /livez, port: {{ .port }}, scheme: {{ .scheme }}}
  periodSeconds: 2
  failureThreshold: 60
livenessProbe:
  httpGet: {path: /livez, port: {{ .port }}, scheme: {{ .scheme }}}
  periodSeconds: 10
  timeoutSeconds: 5
  failureThreshold: 6
readinessProbe:
  httpGet: {path: /readyz, port: {{ .port }}, scheme: {{ .scheme }}}
  periodSeconds: 5
  timeoutSeconds: 5
  failureThreshold: 2
{{- end }}

{{- define "convoy.spread" -}}
topologySpreadConstraints:
{{- range list "kubernetes.io/hostname" "topology.kubernetes.io/zone" }}
- topologyKey: {{ . }}
  maxSkew: 1
  whenUnsatisfiable: ScheduleAnyway
  labelSelector:
    matchLabels: {{- include "convoy.labels" $ | nindent 6 }}
{{- end }}
{{- end }}

{{- define "convoy.strategy" -}}
strategy:
  type: RollingUpdate
  rollingUpdate:
    maxSurge: 1
    maxUnavailable: 0
{{- end }}

{{/* Where the render store is, how it is mounted, and the volume. They take the root. */}}
{{- define "convoy.render-store-args" -}}
{{- $s3 := .Values.renderStore.s3 -}}
{{- if $s3.bucket -}}
- --render-store-url=s3://{{ $s3.bucket }}/{{ $s3.prefix }}
- --render-store-s3-region={{ $s3.region }}
{{- with $s3.endpoint }}
- --render-store-s3-endpoint={{ . }}
{{- end }}
{{- if $s3.virtualHost }}
- --render-store-s3-virtual-host
{{- end }}
{{- if $s3.secretName }}
- --render-store-s3-credentials-file=/etc/convoy/render-store/credentials
{{- if $s3.ca }}
- --render-store-s3-ca-file=/etc/convoy/render-store/ca.crt
{{- end }}
{{- end }}
{{- else -}}
- --render-store-url=file:///var/lib/convoy/render-store
{{- end }}
{{- end }}

{{- define "convoy.render-store-mount" -}}
{{- if not .Values.renderStore.s3.bucket -}}
- name: render-store
  mountPath: /var/lib/convoy/render-store
{{- else if .Values.renderStore.s3.secretName -}}
- name: render-store
  mountPath: /etc/convoy/render-store
  readOnly: true
{{- end }}
{{- end }}

{{- define "convoy.render-store-volume" -}}
{{- if not .Values.renderStore.s3.bucket -}}
- name: render-store
  persistentVolumeClaim:
    claimName: convoy-render-store
{{- else if .Values.renderStore.s3.secretName -}}
- name: render-store
  secret:
    secretName: {{ .Values.renderStore.s3.secretName }}
    defaultMode: 288
{{- end }}
{{- end }}
