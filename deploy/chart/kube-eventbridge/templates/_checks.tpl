{{/* checks refuse what the schema of the values cannot: what is wrong with the configuration only in a Pod as this chart makes it. */}}
{{- define "checks" }}
{{- $elects := hasKey .Values.config "leaderElection" }}
{{- if and (gt (int .Values.replicas) 1) (not $elects) }}
{{- fail "replicas: more than one needs config.leaderElection, such as --set-json 'config.leaderElection={}'" }}
{{- end }}
{{- $listen := include "listen" . }}
{{- if or (not $listen) (regexMatch "(?i)^(127\\.|localhost:|\\[::1])" $listen) }}
{{- fail (printf "config.server.listen: probes and Prometheus do not reach %s; write \":8080\"" ($listen | default "127.0.0.1:8080, the default")) }}
{{- end }}
{{- range (include "written" . | fromYaml).places }}
{{- if $elects }}
{{- fail (printf "%s: is kept in a Pod, and config.leaderElection needs brokers and a checkpoint that all replicas reach: sink.nats or sink.kafka, checkpoint.nats or checkpoint.kafka" .key) }}
{{- end }}
{{- if not .mounted }}
{{- fail (printf "%s: is kept in %s, where nothing is mounted that can be written; persistence.enabled=true mounts a volume at /var/lib/kube-eventbridge, checkpoint.nats and checkpoint.kafka need none" .key (.path | default "the home directory")) }}
{{- end }}
{{- end }}
{{- range $i, $p := .Values.config.pipelines }}
{{- range $broker, $addresses := dict "nats" "servers" "kafka" "brokers" }}
{{- $checkpoint := $p.checkpoint | default dict }}
{{- if and (hasKey $checkpoint $broker) (not (hasKey ($p.sink | default dict) $broker)) (not (get (get $checkpoint $broker | default dict) $addresses)) }}
{{- fail (printf "config.pipelines[%d].checkpoint.%s: names no %s, and the pipeline's sink has none of that kind" $i $broker $addresses) }}
{{- end }}
{{- range $place, $of := dict "sink" ($p.sink | default dict) "checkpoint" $checkpoint }}
{{- range (get (get $of $broker | default dict) $addresses | default list) }}
{{- if include "isPod" . }}
{{- fail (printf "config.pipelines[%d].%s.%s.%s: %s is the Pod itself, where no broker runs; write the address of your broker" $i $place $broker $addresses .) }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
{{- range $i, $r := .Values.config.replicas }}
{{- range $broker, $addresses := dict "nats" "servers" "kafka" "brokers" }}
{{- if hasKey ($r.from | default dict) $broker }}
{{- range get (get $r.from $broker | default dict) $addresses | default (list "localhost, the default,") }}
{{- if include "isPod" . }}
{{- fail (printf "config.replicas[%d].from.%s.%s: %s is the Pod itself, where no broker runs; write the address of your broker" $i $broker $addresses .) }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
{{- if and .Values.config.replicas (eq (toJson .Values.config.pipelines) (include "ownPipelines" . | fromYamlArray | toJson)) }}
{{- fail "config.pipelines: are those of the chart's own values, and would be published beside config.replicas; write pipelines: null for none, or your own" }}
{{- end }}
{{- with (.Values.config.kubernetes | default dict).kubeconfig }}
{{- if not (include "mounted" (dict "path" . "mounts" $.Values.extraVolumeMounts)) }}
{{- fail (printf "config.kubernetes.kubeconfig: nothing is mounted at %s; mount a Secret with it by extraVolumes and extraVolumeMounts" .) }}
{{- end }}
{{- end }}
{{- if and .Values.rbac.create (eq (toJson .Values.rbac.rules) (include "ownRules" . | fromYamlArray | toJson)) (ne (include "read" .) "configmaps deployments.apps") }}
{{- fail "rbac.rules: are those for the resources of the chart's own values, and config has others; write there, and into rbac.namespacedRules, what kube-eventbridge rbac --config FILE --helm-values prints for a file with config" }}
{{- end }}
{{- end }}

{{/* isPod says whether an address of a broker is that of the Pod itself. */}}
{{- define "isPod" }}
{{- if regexMatch "(?i)^([a-z]+://)?([^@/]*@)?(127\\.|0\\.0\\.0\\.0|localhost(:|,|$)|\\[[0:]*:[0:]*1?])" . }}yes{{ end }}
{{- end }}

{{/* mounted says whether a path is in a volume. */}}
{{- define "mounted" }}
{{- $path := .path }}
{{- range .mounts }}
{{- if hasPrefix (printf "%s/" (clean .mountPath)) (printf "%s/" (clean $path)) }}yes{{ end }}
{{- end }}
{{- end }}

{{/* ownPipelines are the pipelines of values.yaml. */}}
{{- define "ownPipelines" }}
- name: audit
  resources: [{resource: deployments.apps}, {resource: configmaps}]
  sink: {nats: {servers: ["nats://nats.nats.svc:4222"], maxAge: 168h}}
  checkpoint: {nats: {}}
{{- end }}

{{/* ownRules are the rules of values.yaml. */}}
{{- define "ownRules" }}
- {apiGroups: [""], resources: [namespaces], resourceNames: [kube-system], verbs: [get]}
- {apiGroups: [""], resources: [configmaps], verbs: [list, watch]}
- {apiGroups: [apps], resources: [deployments], verbs: [list, watch]}
{{- end }}

{{/* read are the resources that the configuration names, with a mark where it does not read all namespaces, and for a replica. */}}
{{- define "read" }}
{{- $all := list }}
{{- range .Values.config.pipelines }}
{{- range .resources }}
{{- $all = append $all (printf "%s%s" .resource (ternary "!" "" (or (not (empty .namespaces)) (not (empty .namespaceSelector))))) }}
{{- end }}
{{- end }}
{{- if .Values.config.replicas }}
{{- $all = append $all "!" }}
{{- end }}
{{- $all | uniq | sortAlpha | join " " }}
{{- end }}

{{/* config is the configuration as the bridge gets it: the Lease of replicas is that of the release. */}}
{{- define "config" }}
{{- $config := deepCopy .Values.config }}
{{- if hasKey $config "leaderElection" }}
{{- $_ := set $config "leaderElection" (mergeOverwrite (dict "resourceName" (include "name" .)) ($config.leaderElection | default dict)) }}
{{- end }}
{{- toYaml $config }}
{{- end }}

{{- define "listen" }}{{ (.Values.config.server | default dict).listen | default "" }}{{ end }}

{{- define "port" }}{{ include "listen" . | splitList ":" | last }}{{ end }}

{{/* written are the places where pipelines keep something on a disk: key says what, path where, and mounted whether a volume is there. */}}
{{- define "written" }}
{{- $mounts := list }}
{{- if .Values.persistence.enabled }}
{{- $mounts = append $mounts "/var/lib/kube-eventbridge/" }}
{{- end }}
{{- range .Values.extraVolumeMounts }}
{{- if not .readOnly }}
{{- $mounts = append $mounts (printf "%s/" (clean .mountPath)) }}
{{- end }}
{{- end }}
{{- $places := list }}
{{- range $i, $p := .Values.config.pipelines }}
{{- $sink := $p.sink | default dict }}
{{- $checkpoint := $p.checkpoint | default dict }}
{{- if not (or (hasKey $sink "nats") (hasKey $sink "kafka") (hasKey $sink "stdout")) }}
{{- $dir := ($sink.embedded | default dict).storeDir | default $.Values.config.dataDir }}
{{- $places = append $places (dict "key" (printf "config.pipelines[%d].sink.embedded" $i) "path" $dir) }}
{{- end }}
{{- if not (or (hasKey $checkpoint "nats") (hasKey $checkpoint "kafka")) }}
{{- $file := ($checkpoint.file | default dict).path | default $.Values.config.dataDir }}
{{- $places = append $places (dict "key" (printf "config.pipelines[%d].checkpoint.file" $i) "path" $file) }}
{{- end }}
{{- end }}
{{- range $place := $places }}
{{- range $mounts }}
{{- if hasPrefix . (printf "%s/" (clean ($place.path | default "."))) }}
{{- $_ := set $place "mounted" true }}
{{- end }}
{{- end }}
{{- end }}
{{- dict "places" $places | toYaml }}
{{- end }}
