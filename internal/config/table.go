// SPDX-License-Identifier: Apache-2.0

package config

import (
	"math"
	"slices"
	"time"

	"github.com/kube-eventbridge/kube-eventbridge/encode"
	"github.com/kube-eventbridge/kube-eventbridge/internal/config/rules"
)

// rule is a line of the table of all keys: key, kind, default, and purpose. Decoding, checks, docs/configuration.md,
// config.example.yaml and the JSON schemas are made of it. Rules that warn, or that need more than the keys of one
// mapping, are functions in rules*.go.
type rule rules.Rule

const (
	seconds = int64(time.Second)
	// minBuffer is about what one object may take at most.
	minBuffer = 1 << 20
)

// The table follows, a list for each mapping of the file, from the file itself down.

var fileKeys = []rule{
	{"cluster", aClusterName, "", `The name of the cluster in events: letters, digits, - and . (at most 63). The default
		is the uid of namespace kube-system, which is unique and hard to read.`},
	{"kubernetes", mapping(kubernetesKeys), "", `How the API server is found; empty means in-cluster, then $KUBECONFIG
		and ~/.kube/config.`},
	{"pipelines", list(mapping(pipelineKeys)).Also("pipeline"), "", `What is published where. Each pipeline has a position of its own:
		one that waits for its broker stops no other. A file has pipelines, replicas or both.`},
	{"replicas", list(mapping(replicaKeys)).Also("replica"), optional, `Objects that are kept in the state that the log of
		another cluster describes. They are written to the cluster of kubernetes. The command replicate does that.`},
	{"leaderElection", mapping(electionKeys), optional, `Lets several processes with this configuration run, of which
		one publishes, and another takes over where that one ends. It needs brokers and checkpoints that all of them
		reach. Absent: one process runs.`},
	{"dataDir", aFile, "", `Where state is kept, a relative path being relative to this file's directory; empty means
		kube-eventbridge in $XDG_STATE_HOME or in ~/.local/state.`},
	{"buffer", mapping(bufferKeys), "", `What may be read ahead of the brokers, by all pipelines together.`},
	{"server", mapping(serverKeys), "", `The HTTP server.`},
	{"log", mapping(logKeys), "", `What the process logs, on its standard error.`},
}

var kubernetesKeys = []rule{
	{"kubeconfig", aFile, "", `The kubeconfig file; empty means in-cluster, then $KUBECONFIG and ~/.kube/config.`},
	{"context", aText, "", `A context of the kubeconfig; empty means its current one.`},
}

var electionKeys = []rule{
	{"resourceName", aLeaseName, "kube-eventbridge", `The Lease by which they agree. Bridges that read something else
		need another one: of all that share it, one publishes.`},
	{"resourceNamespace", aNamespace.OrEmpty(), "", `Its namespace; empty means that of the Pod, or of the kubeconfig's
		context.`},
	{"leaseDuration", aDuration.AtLeast(3 * seconds), "15s", `How long after its last renewal others take the leader for
		dead, in whole seconds, at least 3s.`},
	{"renewDeadline", aDuration, "10s", `How long after that the leader itself goes on, at most a second less.`},
	{"retryPeriod", aDuration.AtLeast(seconds / 10), "2s", `What is between renewals, at most half of that. A process
		that stands by looks five times as often, every 400ms at most.`},
}

var bufferKeys = []rule{
	{"maxBytes", aSize.AtLeast(minBuffer), "256Mi", `How much may be read from the API server and not yet acknowledged
		by the brokers; then reading waits. What is held of deleted objects counts, until that is saved. Previous
		states count where payloads or filters need them: they take a quarter of it at most. An object for which there
		is no room passes alone, and what a list finds deleted is on top. At least 1Mi. Where pipelines or namespaces
		can share watches, a sixteenth of it is for those that are behind others.`},
}

var serverKeys = []rule{
	{"listen", aListener.Also("port"), "127.0.0.1:8080", `The status page (/), /metrics, /livez, /readyz, and what the
		commands status and resync ask; a Pod needs :8080 for probes.`},
	{"admin", aListener.OrEmpty(), "", `Where a resync, or that a replica goes on, can be asked for, such as
		127.0.0.1:8081. Empty: at listen, by requests to a loopback address: on the same machine, or through kubectl port-forward.`},
	{"profiling", aSwitch.Also("pprof"), "false", `true also serves Go's profiles of processor time and memory, below
		/debug/pprof/. Whoever reaches the address can keep a core busy with them; no profile has contents of
		objects.`},
}

var logKeys = []rule{
	{"level", choice("debug", "info", "warn", "error"), "info", `debug, info, warn or error; debug logs every event.`},
	{"format", choice("auto", "text", "json"), "auto", `text, json, or auto: text on a terminal, JSON elsewhere.`},
}

var pipelineKeys = []rule{
	{"name", aPipelineName, required, `Letters, digits, - and _ (at most 63). The name is in events, metrics and the
		checkpoint. A pipeline with another name is another one: it needs a stream or topic of its own. Required.`},
	{"resources", list(mapping(resourceKeys)).Some(), required, `What to watch. An object belongs to one entry: list a
		resource twice only with different namespaces. Required.`},
	{"encoding", mapping(encodingKeys), "", `What an event looks like.`},
	{"sink", mapping(sinkKeys), "", `Where events go: one of nats, kafka, embedded and stdout. Without a sink it is
		embedded.`},
	{"checkpoint", mapping(checkpointKeys), "", `Where positions are kept: in Kafka or NATS if that is written, else in
		a file.`},
	{"recovery", mapping(recoveryKeys), "", `When the API server no longer serves a watch from the position (its restart
		and a changed CustomResourceDefinition do that), a list follows, and a gap is announced. What lies in between
		is read back from etcd's history first, while etcd has it (5 minutes by default).`},
	{"audit", mapping(auditKeys), "", `Compares what exists with what the log has, by identities alone. What differs is
		published, behind a gap.`},
	{"onReject", choice("publish", "stop"), "publish", `What follows when the broker refuses an event for good, as one
		that is too large: publish puts a rejection in its place, stop ends the pipeline with the event unpublished
		and the position before it. The pipeline is tried again by itself.`},
	{"oversize", choice("reject", "metadata", "store"), "reject", `What becomes of an event that is larger than the
		broker takes: reject leaves it to onReject, metadata publishes it with apiVersion, kind and metadata of the
		object alone. store, for NATS, does that too, and puts the whole data into the bucket STREAM-objects of the
		server's object store.`},
	{"buffer", mapping(shareKeys), "", `This pipeline's part of what may be read ahead of its broker.`},
}

var resourceKeys = []rule{
	{
		"resource", aResource.Also("apiVersion", "group", "version", "kind"), required,
		`plural[.version][.group] as kubectl takes it: pods, deployments.apps, deployments.v1.apps. "*.example.com" is
			every resource of a group that can be listed and watched, "*" those of all groups, as they come and go; an
			entry that names a resource, or its group, takes it from a wildcard in the namespaces that they share, or with
			a namespaceSelector in all that the wildcard has. With "*" come Secrets (whose values stay here), events and
			leases, which change more than all the rest: exclude what no consumer reads. Required.`,
	},
	{"exclude", list(aResource).Unique(), "[]", `What a wildcard leaves out, such as [events,
		leases.coordination.k8s.io, "*.metrics.k8s.io"]. A name without a group is left out of every group.`},
	{"namespaces", list(aNamespace).Unique(), "[]", `One stream for each namespace listed; empty means one for all. With
		a wildcard, resources that are in no namespace are left out.`},
	{"namespaceSelector", aLabelSelector.Without("namespaces"), "", `Instead of a list: one stream for each namespace
		that has these labels, as kubectl get namespaces -l takes it, followed as they change. What is in a namespace
		that is not selected any more is published as deleted. With a wildcard, resources that are in no namespace are
		left out.`},
	{
		"labelSelector", aLabelSelector.Also("labels", "selector", "matchLabels"), "",
		`Which objects to watch, as kubectl -l takes it. An object that no longer matches is published as deleted.`,
	},
	{"fieldSelector", aFieldSelector.Also("name"), "", `The same by fields, as kubectl --field-selector takes it; with a
		wildcard only metadata.name and metadata.namespace.`},
	{
		"operations", list(choice("added", "updated", "deleted")).Some().Unique(), "[added, updated, deleted]",
		`What is published: added, updated, deleted. What is not is known all the same.`,
	},
	{"ignoreChanges", list(aPath).Unique(), "[]", `Paths, as in redact: an update in which nothing else is different is
		not published, such as status, 'metadata.annotations["example.com/seen"]'. Where there are any,
		metadata.resourceVersion, generation and managedFields count among them.`},
	{"filter", anExpression, "", `An expression of CEL over object and event.operation, .reason, .namespace, .name,
		.objectuid, .resourceversion; false leaves an event out: 'event.operation == "deleted" ||
		has(object.spec.replicas) && object.spec.replicas > 3'. has(…) tells whether something is there. oldObject is
		the state before, null of what was added: 'oldObject == null || object.spec != oldObject.spec'. It takes
		memory, see docs/filters.md.`},
	{"onFilterError", choice("publish", "drop"), "publish", `What becomes of a change for which the filter cannot be
		evaluated, as something is not there: publish or drop. Either is counted.`},
	{"delivery", choice("every", "latest"), "every", `every publishes every delta; latest folds the deltas of an object
		while the broker is slow, and events say how many.`},
	{
		"payload", choice("object", "metadata", "change", "merge-patch", "json-patch"), "object",
		`object is the whole object, metadata only apiVersion, kind and metadata, change the whole object and what the
			log had before. Updates can also be a merge-patch or a json-patch from what the log had before, and are the
			whole object where that is not known; see docs/event-reference.md.`,
	},
	{"snapshot", choice("initial", "never"), "initial", `initial publishes what exists at the first start; never takes
		it as known.`},
	{"resync", aDuration.AtLeast(60 * seconds).OrZero(), "0s", `How often everything that exists is published again, at
		least 1m, as updated with reason resync; 0s means never. It is paced, and no change waits for it.`},
	{"redact", list(aRedactedPath).Unique(), "[]", `Values that do not leave the process, of this resource alone; see
		encoding.redact.`},
}

var replicaKeys = []rule{
	{"name", aReplicaName, required, `Lower-case letters, digits and - (at most 63). The name is in a label of every
		object that the replica writes, in metrics, and in the names of its NATS consumer and its Kafka group. Under
		another name a replica does not know these objects as its own. Required.`},
	{"from", mapping(fromKeys).WithEither("nats", "kafka"), "", `The log: one of nats and kafka, and which events in it
		count.`},
	{"resources", list(mapping(replicaResourceKeys)).Some(), required, `What is written, of what the pipeline publishes.
		An object belongs to one entry: list a resource twice only with different namespaces. Required.`},
	{"into", mapping(intoKeys), "", `What is changed in objects on their way.`},
	{"existing", choice("refuse", "adopt", "overwrite"), "refuse", `What becomes of an object that is there and was not
		written by the replica: refuse leaves it as it is and reports it, adopt makes it the replica's and leaves the
		fields of others, overwrite replaces it as a whole.`},
	{"conflicts", choice("yield", "force"), "yield", `Who has a field that another manager owns: yield leaves it to that
		manager and reports it, force takes it.`},
	{"owned", choice("skip", "drop", "remap"), "skip", `What becomes of an object with a controlling owner, as a
		ReplicaSet of a Deployment: skip leaves it to the owner's controller in the cluster that is written to, drop
		writes it without its owner, remap with the owner that the replica wrote.`},
	{"deletes", mapping(deletesKeys), "", `What is deleted.`},
	{"onEpoch", choice("hold", "follow"), "hold", `What follows when the etcd of the log's cluster was restored, or the
		cluster rebuilt: hold stops the replica until it is resumed, follow writes the older states.`},
	{"immutable", choice("park", "recreate"), "park", `What follows when the log has another value of a field that
		cannot change: park leaves the object as it is and reports it, recreate deletes it and creates it again.`},
	{"status", aSwitch, "false", `true writes the status of objects, too.`},
}

var fromKeys = []rule{
	{"cluster", aSourceName, required, `The cluster whose objects are read, by its name in events. Required.`},
	{"pipeline", aPipelineName, required, `The pipeline that published them. It has to publish whole objects:
		payload object or change, from NATS also merge-patch, of which a thousand in a row are put together. Sequences of
		another pipeline do not compare with those of objects that were written: if you change it, give the replica another
		name, and write existing: adopt. Required.`},
	{"nats", mapping(natsLogKeys), optional, `A JetStream stream of a NATS server.`},
	{"kafka", mapping(kafkaLogKeys).Without("nats"), optional, `A topic of a Kafka cluster, or several.`},
}

var replicaResourceKeys = []rule{
	{"resource", aResource.Also("apiVersion", "group", "kind"), required, `plural[.group] as kubectl takes it: configmaps,
		deployments.apps. Objects are written in the version that the log has. Required.`},
	{"namespaces", list(aNamespace).Unique(), "[]", `The namespaces in the log's cluster; empty means all.`},
	{"ignore", list(anIgnoredPath).Unique().Also("ignoreChanges", "ignoreFields"), "[]", `Fields that belong to the
		cluster that is written to, such as spec.replicas where a HorizontalPodAutoscaler sets it. The replica does
		not write them.`},
}

var intoKeys = []rule{
	{"namespaces", textsOf(aMapped, aMapped), "{}", `Other names for namespaces, such as {shop: shop-copy}. A
		namespace without another name keeps its own. No two may have the same name.`},
	{"labels", textsOf(aLabelName, aLabelValue), "{}", `Labels that are added to every object, such as
		{example.com/from: prod-eu-1}.`},
	{"annotations", textsOf(anAddedAnnotation, aText), "{}", `Annotations that are added to every object.`},
}

var deletesKeys = []rule{
	{"enabled", aSwitch, "true", `false: objects that are gone in the log's cluster stay. One that was
		made again there is replaced all the same. A Namespace or a CustomResourceDefinition is deleted when only objects
		are left in it that end with it, or that controllers make: the others have to be listed for that.`},
	{"deselected", choice("keep", "delete"), "keep", `What becomes of an object that exists in the log's cluster and that
		its pipeline does not select any more.`},
	{"limit", aLimit, "20%", `The most deletions in an hour, of objects that are as old as minAge: a part of the
		replica's objects in percent, of which 5 are always allowed, or a number. Above it all deletions wait until
		the replica is resumed. 100% is no limit.`},
	{"minAge", aDuration.OrZero(), "1h", `How old an object has to be for its deletion to count for limit: with 1h what
		was made and deleted within the hour does not count, as the Jobs of a CI system. 0s counts all, so that
		emptying a namespace that is younger than an hour is held, too.`},
}

var natsLogKeys = slices.Concat([]rule{natsServersKey, {"stream", aStream, "KUBERNETES", `The JetStream stream.`}},
	natsAccessKeys)

var kafkaLogKeys = slices.Concat([]rule{
	kafkaBrokersKey,
	{"topic", aTopicTemplate, encode.DefaultTopic, `The topic, or the template of several, as in sink.kafka.topic of the
		pipeline.`},
}, kafkaAccessKeys)

var encodingKeys = []rule{
	{"mode", choice("binary", "structured"), "binary", `binary puts CloudEvents attributes into headers, structured puts
		them and the object into one JSON document.`},
	{
		"profile", choice("kube-eventbridge", "knative"), "kube-eventbridge",
		`knative gives events the types, sources and subjects of Knative's ApiServerSource, so that its Triggers go on
			working.`,
	},
	{
		"keep", list(choice("managedFields", "lastApplied")).Unique(), "[]",
		`What is otherwise removed from objects because it is large and rarely read: managedFields, lastApplied.`,
	},
	{"redact", list(aRedactedPath).Unique(), "[]", `Values that do not leave the process, of all resources. A text
		becomes [redacted], a number 0, a boolean false, an object {}, a list []. A path is names with dots between,
		["any name"], and [*] for every element: 'spec.containers[*].env[*].value',
		'metadata.annotations["example.com/token"]'.`},
	{"secrets", mapping(secretsKeys), "", `What is published of Secrets.`},
}

var secretsKeys = []rule{
	{"values", aSwitch, "false", `true publishes the values of Secrets. Everyone who reads the log can then read
		them.`},
	{"annotations", list(anAnnotation).Unique().Without("values"), "[]", `Annotations of Secrets whose values are
		published: example.com/team. Of the others only the names are.`},
	{"hashes", mapping(hashKeys).Without("values"), optional, `Shows that a value changed, and not what it is: each is
		[redacted hmac-sha256:…] with a hash, under a key of 16 random bytes or more, as from openssl rand -hex 32.`},
}

var hashKeys = []rule{
	{"keyFile", aFile, "", `The file with the key, or the environment variable; read at start. Another key changes all
		hashes.`},
	{"keyEnv", aVariable.Without("keyFile"), "", `The environment variable with the key, instead of keyFile.`},
}

var sinkKeys = []rule{
	{"nats", mapping(natsKeys), optional, `The JetStream of a NATS server.`},
	{"kafka", mapping(kafkaKeys).Without("nats"), optional, `The topics of a Kafka cluster.`},
	{
		"embedded", mapping(embeddedKeys).Without("nats", "kafka"), optional,
		`A NATS server with JetStream in this process. All pipelines that use it share one.`,
	},
	{
		"stdout", mapping(nil).Without("nats", "kafka", "embedded"), optional,
		`One event a line on the standard output: a CloudEvent, or with run -o wide a line for a person.`,
	},
}

// natsUserKeys say as whom a NATS server is used, besides tokenFile.
var natsUserKeys = []rule{
	{"tokenEnv", aVariable.Without("tokenFile"), "", `The environment variable with a token, instead of tokenFile.`},
	{
		"user", aText.Needs("passwordFile", "passwordEnv").Without("tokenFile", "tokenEnv"), "",
		`The user whose password is in passwordFile or passwordEnv.`,
	},
	{"passwordFile", aFile.Needs("user"), "", `The file with the password of user.`},
	{"passwordEnv", aVariable.Needs("user").Without("passwordFile"), "", `The environment variable with the password of
		user, instead of passwordFile.`},
	{"nkeyFile", aFile.Also("seed").Without("tokenFile", "tokenEnv", "user"), "", `A file with a user's NKey seed.`},
	{
		"credsFile", aFile.Without("tokenFile", "tokenEnv", "user", "nkeyFile"), "",
		`A file with a user's JWT and seed, as nsc writes it.`,
	},
}

// natsAccessKeys say as whom a NATS server is used, and how the connection is protected.
var natsAccessKeys = slices.Concat([]rule{
	{"tokenFile", aFile, "", `Who we are: at most one of tokenFile, tokenEnv, user with a password, nkeyFile, credsFile.
		Secrets never stand in this file; it names the files and environment variables that hold them, read at
		start.`},
}, natsUserKeys, []rule{
	{"tls", mapping(natsTLSKeys), optional, `TLS beyond what the scheme tls:// says: whom to trust, and a client
		certificate. Remove it where neither is needed.`},
})

var natsServersKey = rule{
	"servers", list(aServer).Some().Also("url", "urls"), "[nats://localhost:4222]",
	`Any of the servers of one cluster; schemes nats, tls, ws, wss.`,
}

var natsKeys = slices.Concat([]rule{
	natsServersKey,
	{"stream", aStream, "KUBERNETES", `The JetStream stream; it is created if it is missing, with the limits below, and
		else checked.`},
	{"subject", aSubject, encode.DefaultSubject, `Each object needs a subject of its own: with {group}, {resource},
		{namespace} and {name}, each alone between dots. With less, less can be promised; validate says what.`},
	{"fence", aSwitch, "true", `With each event the server is told which one of its object is the last, and refuses what
		does not know it. false: it is not told, so that late events, and those of a replaced process, can stand
		behind newer ones.`},
	{"maxAge", aDuration.AtLeast(10 * seconds).OrZero(), "0s", `How long events are kept, at least 10s; 0 means no
		limit. An existing stream keeps its own limit, and a warning says so.`},
	{"maxBytes", aSize, "0", `How large the stream may become before its oldest events go; 0 means no limit.`},
	{"duplicateWindow", aDuration.AtLeast(10 * seconds), "2m", `How long the server recognises repeated events by their
		id, at least 10s and at most maxAge; longer costs its memory.`},
	{"replicas", aNumber.Between(1, 5), "1", `How many servers hold the stream, 1 to 5; 3 survives the loss of one.`},
}, natsAccessKeys)

var natsTLSKeys = []rule{
	{"caFile", aFile, "", `Certificate authorities in PEM; empty means the system's.`},
	{"certFile", aFile.Needs("keyFile"), "", `A client certificate in PEM; with keyFile.`},
	{"keyFile", aFile.Needs("certFile"), "", `The key of the certificate in certFile.`},
	{"serverName", aText, "", `The name in the server's certificate; empty means the host of the URL.`},
}

var kafkaBrokersKey = rule{
	"brokers", list(aBroker).Some().Unique().Also("bootstrapServers", "bootstrap.servers", "servers"), required,
	`Some brokers of the cluster, host:port; they tell of the others. Required.`,
}

var kafkaKeys = slices.Concat([]rule{
	kafkaBrokersKey,
	{"topic", aTopicTemplate, encode.DefaultTopic, `Several topics by {pipeline}, {cluster}, {group}, {version} and
		{resource}, as in "kubernetes.{group}.{resource}".`},
	{"create", mapping(createKeys), optional, `Makes a topic that is missing; remove it to have that refused.`},
	{
		"compression", choice("none", "gzip", "snappy", "lz4", "zstd"), "none",
		`none, gzip, snappy, lz4 or zstd, of batches. It takes processor time here, and room and network off the
			brokers.`,
	},
	{"tombstones", aSwitch, "false", `true adds a record without a value behind the deletion of an object, so that
		compaction removes what is left of it.`},
}, kafkaAccessKeys)

// kafkaAccessKeys say as whom brokers are used, and how connections are protected.
var kafkaAccessKeys = []rule{
	{"tls", mapping(kafkaTLSKeys), optional, `TLS to the brokers; {} trusts the system's certificate authorities. Remove
		it where connections are not protected.`},
	{
		"sasl", mapping(saslKeys).Also("password", "token", "securityProtocol", "security.protocol"), optional,
		`Who we are. Remove it where the brokers do not ask, or take the client certificate for it.`,
	},
}

var createKeys = []rule{
	{"partitions", aNumber.Between(0, 10_000), "0", `How many partitions a topic gets; 0 means the brokers' default.`},
	{"replicas", aNumber.Between(0, math.MaxInt16), "0", `How many brokers hold each partition; 0 means the brokers'
		default, 3 survives the loss of one.`},
	{"settings", texts, "{}", `A topic's settings by Kafka's names, such as {retention.ms: 604800000,
		min.insync.replicas: 2}.`},
}

var kafkaTLSKeys = []rule{
	{"caFile", aFile, "", `Certificate authorities in PEM; empty means the system's.`},
	{"certFile", aFile.Needs("keyFile"), "", `A client certificate in PEM; with keyFile.`},
	{"keyFile", aFile.Needs("certFile"), "", `The key of the certificate in certFile.`},
	{"serverName", aText, "", `The name in the brokers' certificates; empty means the host connected to.`},
}

var saslKeys = []rule{
	{
		"mechanism", choice(mechanisms...), required,
		`plain, scram-sha-256, scram-sha-512 or oauthbearer. Required.`,
	},
	{"user", forPassword(aText).Needs("passwordFile", "passwordEnv"), "", `For plain and scram: the user, and where the password is, a file or an
		environment variable, read at start.`},
	{"passwordFile", forPassword(aFile).Needs("user"), "", `The file with the password of user.`},
	{"passwordEnv", forPassword(aVariable).Needs("user").Without("passwordFile"), "", `The environment variable with the password of
		user, instead of passwordFile.`},
	{"tokenFile", forToken(aFile), "", `For oauthbearer: a file with a token, read at each connect, or the server that
		gives one for a client's id and secret.`},
	{"tokenURL", forToken(aTokenURL).Needs("clientID").Without("tokenFile"), "", `The server that gives tokens for clientID and its
		secret, instead of tokenFile, such as https://login.example.com/token.`},
	{"clientID", forToken(aText).Needs("clientSecretFile", "clientSecretEnv").Without("tokenFile"), "", `The client that tokenURL is asked as.`},
	{"clientSecretFile", forToken(aFile).Needs("tokenURL").Without("tokenFile"), "", `The file with the secret of clientID.`},
	{
		"clientSecretEnv", forToken(aVariable).Needs("tokenURL").Without("tokenFile", "clientSecretFile"), "",
		`The environment variable with the secret of clientID, instead of clientSecretFile.`,
	},
	{"scopes", forToken(list(aScope)).Needs("tokenURL").Without("tokenFile"), "[]", `What the token has to be good for, where that server
		wants to know.`},
}

var embeddedKeys = []rule{
	{"listen", aBrokerListener, "127.0.0.1:4222", `Whoever reaches this address reads the log: leave it on the local
		host, or use a server of your own.`},
	{"storeDir", aFile, "", `Where its streams are; empty means nats in dataDir.`},
	{"stream", aStream, "KUBERNETES", `The JetStream stream; it is created if it is missing.`},
	{"subject", aSubject, encode.DefaultSubject, `As in nats: each object needs a subject of its own.`},
	{"fence", aSwitch, "true", `As in nats.`},
	{"maxAge", aDuration.AtLeast(10 * seconds).OrZero(), "0s", `How long events are kept, at least 10s; 0 means no
		limit. An existing stream keeps its own limit, and a warning says so.`},
	{"maxBytes", aSize, "0", `How large the stream may become before its oldest events go; 0 means no limit.`},
	{"duplicateWindow", aDuration.AtLeast(10 * seconds), "2m", `How long the server recognises repeated events by their
		id, at least 10s and at most maxAge.`},
}

var checkpointKeys = []rule{
	{"file", mapping(checkpointFileKeys), "", `A file, which one process at a time uses.`},
	{"kafka", mapping(checkpointKafkaKeys).Without("file"), optional, `A compacted topic of the brokers of sink.kafka,
		so that no disk is needed. It is made if it is missing, and all pipelines may share it.`},
	{
		"nats", mapping(checkpointNATSKeys).Without("file", "kafka"), optional,
		`A key-value bucket of NATS JetStream (2.11 or newer), so that no disk is needed. It is made if it is missing,
			and all pipelines, of all clusters, may share it.`,
	},
}

var checkpointFileKeys = []rule{
	{"path", aFile, "", `Where the position is kept; empty means <dataDir>/<name of the pipeline>.db. If it is lost, a
		gap follows, and the log tells what was published. With stdout a snapshot begins, which does not tell what was
		deleted meanwhile.`},
}

var checkpointKafkaKeys = []rule{
	{"topic", aTopic, "kube-eventbridge-checkpoints", `It must not be one that events are published to.`},
	{"replicas", aNumber.Between(0, math.MaxInt16), "0", `How many brokers hold it where it is made; 0 means the
		brokers' default.`},
}

var checkpointNATSKeys = slices.Concat([]rule{
	{"bucket", aBucket, "kube-eventbridge-checkpoints", `It must have nothing but checkpoints. Its keys are
		<cluster>.<pipeline>.<number>; checkpoint show tells what they say.`},
	{"replicas", aNumber.Between(1, 5), "1", `How many servers hold it where it is made, 1 to 5; 3 survives the loss of
		one.`},
	{"servers", list(aServer).Also("url", "urls"), "[]", `Servers that have it; empty means those of sink.nats, with
		what is said there of who we are. Otherwise what follows says that, as in sink.nats.`},
	{"tokenFile", aFile, "", `A file with a token.`},
}, natsUserKeys, []rule{
	{"tls", mapping(natsTLSKeys), optional, `TLS beyond what the scheme tls:// says; remove it where that is enough.`},
})

var recoveryKeys = []rule{
	{"enabled", aSwitch, "true", `false announces the gap alone.`},
	{"maxReads", aNumber.AtLeast(1).Or("enabled: false"), "10000", `The most requests for one gap of one stream, at least 1; each takes the
		API server 2 ms or so.`},
	{"maxTime", aDuration.AtLeast(seconds / 1000).Or("enabled: false"), "1m", `The longest time for one gap of one stream, at
		least 1ms.`},
}

var auditKeys = []rule{
	{"interval", aDuration.AtLeast(60 * seconds).OrZero(), "24h", `How often, at least 1m; 0s means never. It costs a
		list of all objects' metadata. Each stream has a time of its own within the interval.`},
}

var shareKeys = []rule{
	{"maxBytes", aSize.AtLeast(minBuffer).OrZero(), "0", `This pipeline's part of the buffer below, at least 1Mi; 0
		means an equal part of what the others leave.`},
}
