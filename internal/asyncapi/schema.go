// SPDX-License-Identifier: Apache-2.0

package asyncapi

import "slices"

// attribute is one of an event's.
type attribute struct {
	name, says string
	schema     Object
	// on says what has it always, and onSome what may have it.
	on, onSome about
}

// about is what an event is about: an object, a stream, or both kinds of events.
type about uint8

const (
	nothing about = 0
	objects about = 1
	streams about = 2
	both    about = objects | streams
)

func attributes() []attribute {
	text, instant := object("type", "string"), object("type", "string", "format", "date-time")
	number := object("type", "integer", "minimum", 1)
	reasons := []string{"watch", "snapshot", "relist", "recovered", "resync", "repair", "deselected"}
	return []attribute{
		{"specversion", "The version of CloudEvents.", object("type", "string", "const", "1.0"), both, nothing},
		{"id", "Together with source it is unique in a pipeline.", text, both, nothing},
		{"source", "Where the object lives: cluster, group, version and resource.", text, both, nothing},
		{"type", "What happened. Consumers must accept types that they do not know.", text, both, nothing},
		{
			"subject", "<namespace>/<name>, or <name> of an object that is in no namespace; in Knative's profile a path.", text,
			objects, nothing,
		},
		{"time", "When it happened, as far as the object tells.", instant, both, nothing},
		{"recordedtime", "When the bridge read it.", instant, both, nothing},
		{"datacontenttype", "That of the data.", object("type", "string", "const", "application/json"), both, nothing},
		{"payload", "What the data is.", text, both, nothing},
		{"pipeline", "Who publishes.", text, both, nothing},
		{"clustername", "The cluster's name.", text, both, nothing},
		{"apiversion", "Of the object, as the pipeline reads it.", text, objects, streams},
		{"kind", "Of the object.", text, objects, streams},
		{"resource", "The plural of the object's kind, as in URLs.", text, objects, nothing},
		{"namespace", "Of the object, if it is in one.", text, nothing, objects},
		{"name", "Of the object.", text, objects, nothing},
		{"objectuid", "The uid of the object.", text, objects, nothing},
		{"resourceversion", "Of the object; of a marker that of its list, or the stream's position.", text, objects, streams},
		{
			"sequence", "<epoch>.<version>.<step>. Of two events of a partitionkey the one with the greater text is newer.",
			object("type", "string", "pattern", `^[0-9]{10}\.[0-9]{20}\.[01]$`), objects, nothing,
		},
		{
			"partitionkey",
			"<cluster>/<group>/<resource>/<namespace>/<name>, with core for the core group and _ for no namespace.", text, both,
			nothing,
		},
		{
			"reason", "How the bridge came to know. Consumers must accept reasons that they do not know.",
			object("type", "string", "examples", reasons), objects, nothing,
		},
		{"fieldmanager", "Who made this change, as far as the object tells.", text, nothing, objects},
		{"sampledrate", "How many changes the event stands for; absent for one.", number, nothing, objects},
		{"baseversion", "The resourceVersion that a patch applies to, or that oldObject has.", text, nothing, objects},
		{
			"datasize", "Of what was too large for the broker: the bytes of the data that was left out.", number, nothing,
			objects,
		},
		{
			"dataref", "Of what was too large for the broker: where its data is kept, nats-obj:<bucket>/<name>.", text, nothing,
			objects,
		},
		{
			"redacted", "true where a value in the data was replaced; absent otherwise.",
			object("type", "string", "const", "true"), nothing, objects,
		},
		{"writerterm", "The term of the writer's lease, where several processes elect a leader.", number, nothing, objects},
	}
}

// schemas are all that messages refer to.
func (d *document) schemas() Object {
	all := Object{}
	for _, b := range []Broker{NATS, Kafka} {
		if d.binary[b] {
			all.set(string(b)+"Event", headersOf(b, objects))
			all.set(string(b)+"Marker", headersOf(b, streams))
		}
	}
	if d.structured {
		all.set("structuredEvent", envelopeOf(objects))
		all.set("structuredMarker", envelopeOf(streams))
	}
	for _, m := range data() {
		if d.uses(m.name) {
			all.set(m.name, m.value)
		}
	}
	return all
}

// uses reports whether a schema of data is needed.
func (d *document) uses(name string) bool {
	switch name {
	case "tombstone":
		return d.tombstones
	case "partitionkey", "writerStarted":
		return d.kafka
	case "object", "metadata", "change", "mergePatch", "jsonPatch":
		return d.told[name]
	default:
		return true
	}
}

// headersOf describes the headers of messages. Integers are text there.
func headersOf(b Broker, a about) Object {
	properties, required := Object{}, []string{}
	for _, at := range attributes() {
		schema := slices.Clone(at.schema)
		if schema[0].value == "integer" {
			schema = object("type", "string", "pattern", "^[1-9][0-9]*$")
		}
		name := header(b, at.name)
		if at.on&a != 0 {
			required = append(required, name)
		}
		if (at.on|at.onSome)&a != 0 {
			schema.set("description", at.says)
			properties.set(name, schema)
		}
	}
	return object("type", "object", "required", required, "properties", properties)
}

// envelopeOf describes an event that is one document.
func envelopeOf(a about) Object {
	properties, required := Object{}, []string{}
	for _, at := range attributes() {
		if at.on&a != 0 {
			required = append(required, at.name)
		}
		if (at.on|at.onSome)&a != 0 {
			schema := slices.Clone(at.schema)
			schema.set("description", at.says)
			properties.set(at.name, schema)
		}
	}
	return object("type", "object", "required", append(required, "data"), "properties", properties)
}

// data are the schemas of what events tell.
func data() Object {
	text, number := object("type", "string"), object("type", "integer", "minimum", 0)
	causes := []string{
		"expired", "restored", "rebuilt", "log-lost", "checkpoint-lost", "selection", "resource-gone", "audit",
	}
	metadata := object("type", "object", "required", []string{"name"}, "properties",
		object("name", text, "namespace", text, "uid", text, "resourceVersion", text))
	of := func(says string, required []string, properties Object) Object {
		return object("type", "object", "description", says, "required", required, "properties", properties)
	}
	identity := object("apiVersion", text, "kind", text, "metadata", metadata)
	scope := func(more ...any) (o Object) {
		return append(object("namespace", text, "labelSelector", text, "fieldSelector", text, "epoch", number),
			object(more...)...)
	}
	return object(
		"object", of("A Kubernetes object as the API server sent it, without what is configured to be left out. A deletion "+
			"that no watch has shown has its identity only.",
			[]string{"apiVersion", "kind", "metadata"}, identity),
		"metadata", of("apiVersion, kind and metadata of a Kubernetes object.", []string{"apiVersion", "kind", "metadata"},
			identity),
		"change", of("A Kubernetes object, and what the log had of it before, where there is that and it is known.",
			[]string{"object"},
			object("object", ref("components/schemas/object"), "oldObject", ref("components/schemas/object"))),
		"mergePatch", object("type", "object", "description",
			"A JSON merge patch (RFC 7386) of the data that the event before told, or was applied to."),
		"jsonPatch", object("type", "array", "description",
			"A JSON patch (RFC 6902) of the data that the event before told, or was applied to.", "minItems", 1,
			"items", of("An operation.", []string{"op", "path"},
				object("op", object("enum", []string{"add", "remove", "replace"}), "path", text, "value", object()))),
		"rejected", of("Which event is missing, and why.", []string{"type", "error", "size"},
			object("type", text, "error", text, "size", number)),
		"gap", of("The log is complete up to from; to is the version of the list that ends the gap. With the causes "+
			"restored and rebuilt the two do not compare. Consumers must accept causes that they do not know. "+
			"Empty texts stand for all.",
			[]string{"namespace", "labelSelector", "fieldSelector", "epoch", "from", "to", "cause", "message"},
			scope("from", text, "to", text, "cause", object("type", "string", "examples", causes), "message", text)),
		"snapshotStarted", of("Which snapshot. Empty texts stand for all.",
			[]string{"namespace", "labelSelector", "fieldSelector", "epoch", "resourceVersion"},
			scope("resourceVersion", text)),
		"snapshotCompleted", of("Which snapshot, and how many objects were listed. Empty texts stand for all.",
			[]string{"namespace", "labelSelector", "fieldSelector", "epoch", "resourceVersion", "objects"},
			scope("resourceVersion", text, "objects", number)),
		"resyncStarted", of("Which resync. Empty texts stand for all.",
			[]string{"namespace", "labelSelector", "fieldSelector", "epoch", "n"}, scope("n", number)),
		"resyncCompleted", of("Which resync, how many objects were listed, and whether each object of the scope was told. "+
			"Empty texts stand for all.", []string{
			"namespace", "labelSelector", "fieldSelector", "epoch", "n", "objects",
			"complete",
		},
			scope("n", number, "objects", number, "complete", object("type", "boolean"))),
		"writerStarted", of("Which producer writes, and the highest epoch that the pipeline had given; 0 where it knew none.",
			[]string{"producerId", "producerEpoch", "epoch"},
			object("producerId", number, "producerEpoch", number, "epoch", number)),
		"tombstone", object("type", "null", "description", "No value."),
		"partitionkey", object("type", "string", "description",
			"The attribute partitionkey. All events of an object are in one partition, in order."),
	)
}
