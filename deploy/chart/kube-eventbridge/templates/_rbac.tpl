{{/* namespacedRules are the rules of each Role by its namespace: those of the values, and where there are replicas, those for their Lease. */}}
{{- define "namespacedRules" -}}
{{- $all := deepCopy (.Values.rbac.namespacedRules | default dict) }}
{{- if hasKey .Values.config "leaderElection" }}
{{- $election := (include "config" . | fromYaml).leaderElection }}
{{- $namespace := $election.resourceNamespace | default .Release.Namespace }}
{{- $stand := list (dict "apiGroups" (list "coordination.k8s.io") "resources" (list "leases") "verbs" (list "create")) }}
{{- $stand = append $stand (dict "apiGroups" (list "coordination.k8s.io") "resources" (list "leases") "resourceNames" (list $election.resourceName) "verbs" (list "get" "update")) }}
{{- $_ := set $all $namespace (concat (get $all $namespace | default list) $stand) }}
{{- end }}
{{- toYaml $all }}
{{- end }}

{{/* grant is a role of a namespace, or without one of the cluster, and its binding. A colon is in no name of a namespace or release, so no other release has the same name there. */}}
{{- define "grant" }}
{{- $name := printf "%s:%s" .root.Release.Namespace (include "name" .root) }}
{{- $kind := ternary "Role" "ClusterRole" (ne .namespace "") }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: {{ $kind }}
metadata:
  name: {{ $name }}
  {{- with .namespace }}
  namespace: {{ . }}
  {{- end }}
  labels: {{- include "labels" .root | nindent 4 }}
rules: {{- toYaml .rules | nindent 2 }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: {{ $kind }}Binding
metadata:
  name: {{ $name }}
  {{- with .namespace }}
  namespace: {{ . }}
  {{- end }}
  labels: {{- include "labels" .root | nindent 4 }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: {{ $kind }}
  name: {{ $name }}
subjects:
  - kind: ServiceAccount
    name: {{ include "name" .root }}
    namespace: {{ .root.Release.Namespace }}
{{- end }}
