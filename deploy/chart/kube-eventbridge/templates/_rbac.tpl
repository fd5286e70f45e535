{{/* namespacedRules are the rules of each Role by its namespace: those of the values, and those for what the process has itself in the cluster. */}}
{{- define "namespacedRules" -}}
{{- $all := deepCopy (.Values.rbac.namespacedRules | default dict) }}
{{- $config := include "config" . | fromYaml }}
{{- $election := $config.leaderElection | default dict }}
{{- $namespace := $election.resourceNamespace | default .Release.Namespace }}
{{- $own := dict "leases" list "configmaps" list }}
{{- if $election }}
{{- if $config.pipelines }}
{{- $_ := set $own "leases" (list $election.resourceName) }}
{{- end }}
{{- if $config.replicas }}
{{- $_ := set $own "leases" (append $own.leases (printf "%s-replicas" $election.resourceName)) }}
{{- end }}
{{- end }}
{{- range $config.replicas }}
{{- $_ := set $own "configmaps" (append $own.configmaps (printf "kube-eventbridge-replica-%s" .name)) }}
{{- end }}
{{- range concat (.Values.rbac.rules | default list) (get $all $namespace | default list) }}
{{- if and (has "" .apiGroups) (has "configmaps" .resources) (has "create" .verbs) }}
{{- $_ := set $own "configmaps" list }}{{/* a replica may write them all */}}
{{- end }}
{{- end }}
{{- range $resource, $names := $own }}
{{- if $names }}
{{- $groups := list (ternary "coordination.k8s.io" "" (eq $resource "leases")) }}
{{- $make := dict "apiGroups" $groups "resources" (list $resource) "verbs" (list "create") }}
{{- $change := dict "apiGroups" $groups "resources" (list $resource) "resourceNames" $names "verbs" (list "get" "update") }}
{{- $_ := set $all $namespace (concat (get $all $namespace | default list) (list $make $change)) }}
{{- end }}
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
