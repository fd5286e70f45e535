// SPDX-License-Identifier: Apache-2.0

// Package encode turns a change of a Kubernetes object into a CloudEvents message.
//
// It is pure: nothing is read, written, logged or started, and the same change always gives the same message, byte for
// byte.
//
// An object is not decoded. Its bytes are copied except for two members, which configuration may keep:
// metadata.managedFields and the last-applied-configuration annotation. Everything else arrives as the API server sent
// it; annotations of which nothing is left arrive as {}. Values of Secrets, and those that are to be redacted, are the
// exception: see [Config].
//
// The type and the source of an event need not tell what it is about, because another profile has types and sources of
// its own. Whoever reads a log asks [StateOf] or [InOwn], which go by partitionkey and apiversion. The hash in a
// message's id is of the source without a profile.
package encode

import (
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/kube-eventbridge/kube-eventbridge/encode/jsonscan"
	"github.com/kube-eventbridge/kube-eventbridge/encode/redact"
	"github.com/kube-eventbridge/kube-eventbridge/sink"
	"github.com/kube-eventbridge/kube-eventbridge/source"
)

// Mode is how an event and its attributes share a message.
type Mode string

// The modes. The zero Mode is Binary.
const (
	// Binary: the message's attributes are the event's, the message's data is the event's.
	Binary Mode = "binary"
	// Structured: the message's data is the whole event as JSON; the message has no attributes.
	Structured Mode = "structured"
)

// Payload is what an event's data is.
type Payload string

// The payloads. The zero Payload is Object.
const (
	Object Payload = "object"
	// Metadata is the object's apiVersion, kind and metadata.
	Metadata Payload = "metadata"
	// Change is {"object":…,"oldObject":…}: what Object is, and what the log had before, which is left out where there
	// is nothing or it is not known.
	Change Payload = "change"
	// MergePatch is the JSON merge patch (RFC 7386) of an update, JSONPatch its JSON patch (RFC 6902): from what the
	// log had before to what Object is. Where that is not known, or the patch is no shorter, or a merge patch cannot
	// say it, and in all other events it is what Object is.
	MergePatch Payload = "merge-patch"
	JSONPatch  Payload = "json-patch"
)

// FromOld reports whether the payload is made from what the log had before; then [Encoder.ChangeFrom] encodes changes.
func (p Payload) FromOld() bool { return p == Change || p == MergePatch || p == JSONPatch }

// What Config.Keep may name.
const (
	// KeepManagedFields keeps metadata.managedFields.
	KeepManagedFields = "managedFields"
	// KeepLastApplied keeps the annotation kubectl.kubernetes.io/last-applied-configuration.
	KeepLastApplied = "lastApplied"
)

// Config is what the events of a stream depend on besides their objects.
type Config struct {
	// Cluster consists of letters, digits, dots and hyphens; then no binding has to escape it.
	Cluster, Pipeline string
	Mode              Mode
	Payload           Payload
	// Keep names what is not to be removed: KeepManagedFields, KeepLastApplied.
	Keep []string
	// SecretValues sends Secrets like any other object. Without it a Secret's event has only the members apiVersion,
	// kind, metadata, type, immutable, data and stringData. Each value of the last two is the base64 of "[redacted]",
	// whatever it was, and that of an annotation is "[redacted]". The annotations in which kubectl and other tools keep
	// a copy of the object are removed whatever Keep says. A Secret that cannot be decoded is sent as its identity
	// alone.
	SecretValues bool
	// SecretAnnotations names annotations of Secrets whose values are sent all the same; see [redact.CheckAnnotation].
	SecretAnnotations []string
	// SecretHashes, if not nil, makes each mask of a Secret's value say "[redacted hmac-sha256:<16 hex digits>]", so
	// that it can be seen that the value changed. What is not base64 where it should be has the mask without a hash.
	SecretHashes *redact.Hashes
	// Redact names values that are replaced: texts by "[redacted]", which is in base64 where a ConfigMap or a Secret
	// has base64, numbers by 0, booleans by false, objects by {} and lists by []; null stays. As managedFields and the
	// annotations in which tools keep a copy of the object may repeat a value, they are removed whatever Keep says.
	Redact []jsonscan.Path
	// Subject renders the message's subject or topic; nil means DefaultSubject.
	Subject *Template
	// BareIDs makes a message's ID the event's id alone, for a log that recognises no repetition by it. Otherwise it
	// tells events of one id in several pipelines or resources apart.
	BareIDs bool
	// WriterTerm is the term of the writer's lease; 0 for none.
	WriterTerm int
	// Profile is whose types, sources and subjects events have. Messages have the same ids in all.
	Profile Profile
	// Host is the API server's URL, which the profile Knative needs.
	Host string
}

// Encoder encodes the changes and markers of one stream. It never changes and is safe for concurrent use.
//
// The methods fill every field of a message, whatever it held before, and use its slices' memory again.
// Nothing in a message aliases the body of a change.
type Encoder struct {
	envelope
	content
	// object is the encoder of events with the payload Object, where the configured one is a patch and cannot be had;
	// else nil.
	object *Encoder
	// form stands for what data depend on besides the object.
	form uint32
}

// envelope fills what a message has besides its data.
type envelope struct {
	stream source.Stream
	cfg    Config
	// shared: objects do not each have a subject of their own.
	shared bool

	change, marker head
	// knative is nil in the profile Own.
	knative *knative
	// idPrefix is "<h>." or "", keyPrefix "<cluster>/<group>/<resource>/".
	idPrefix, keyPrefix, scope string
	subject                    subject
	// extra is what events have besides.
	extra attributes
}

// content writes objects as data.
type content struct {
	resource source.Resource
	payload  Payload

	keepManaged, keepApplied bool
	// secret is nil unless the objects are Secrets whose values are not sent.
	secret *redact.Secret
	// redaction is nil where nothing is to be redacted.
	redaction *redact.Paths
	// identity is `{"apiVersion":…,"kind":…,"metadata":`.
	identity []byte
	// reference: the data has namespace and name.
	reference bool
}

// New returns the encoder of a stream. It panics if cfg has a mode, a payload, a profile or a name in Keep that does
// not exist, a path that [redact.CheckPath] refuses, a payload that its profile cannot have, or lacks a host that its
// profile needs.
func New(stream source.Stream, cfg Config) *Encoder {
	if cfg.Mode == "" {
		cfg.Mode = Binary
	}
	if cfg.Payload == "" {
		cfg.Payload = Object
	}
	if cfg.Subject == nil {
		cfg.Subject = defaultSubject()
	}
	e := &Encoder{envelope: envelope{stream: stream, cfg: cfg}}
	e.check()
	e.envelope = newEnvelope(stream, cfg)
	e.content = newContent(stream, cfg)
	if cfg.Payload == MergePatch || cfg.Payload == JSONPatch {
		e.object = e.with(Object)
	}
	e.form = formOf(e)
	return e
}

func newEnvelope(stream source.Stream, cfg Config) envelope {
	src := sourceOf(cfg.Cluster, stream.Resource)
	e := envelope{
		stream: stream, cfg: cfg, shared: !cfg.Subject.PerObject(), scope: stream.Scope(),
		keyPrefix: cfg.Cluster + "/" + groupOr(stream.Group) + "/" + stream.Resource.Resource + "/",
		subject:   cfg.Subject.bind(cfg.Pipeline, cfg.Cluster, stream.Resource),
	}
	if !cfg.BareIDs {
		e.idPrefix = messageIDPrefix(cfg.Pipeline, src)
	}
	e.change, e.marker = e.heads(src)
	if cfg.Profile == Knative {
		e.knative = e.knativeOf()
	}
	return e
}

func newContent(stream source.Stream, cfg Config) content {
	o := content{
		resource: stream.Resource, payload: cfg.Payload, redaction: redact.NewPaths(stream.Resource, cfg.Redact),
		reference: cfg.Profile == Knative && cfg.Payload == Metadata,
	}
	o.keepManaged = slices.Contains(cfg.Keep, KeepManagedFields) && o.redaction == nil
	o.keepApplied = slices.Contains(cfg.Keep, KeepLastApplied) && o.redaction == nil
	o.secret = o.redactsSecrets(cfg)
	o.identity = jsonscan.AppendQuoted([]byte(`{"apiVersion":`), stream.APIVersion())
	o.identity = append(jsonscan.AppendQuoted(append(o.identity, `,"kind":`...), stream.Kind), `,"metadata":`...)
	return o
}

// redactsSecrets returns how Secrets are redacted; nil where the objects are none, or their values are sent.
func (o *content) redactsSecrets(cfg Config) *redact.Secret {
	if o.resource.Group != "" || o.resource.Resource != "secrets" || cfg.SecretValues {
		return nil
	}
	return &redact.Secret{
		Hashes: cfg.SecretHashes, KeepManaged: o.keepManaged, Shown: cfg.SecretAnnotations,
		MetadataOnly: o.payload == Metadata,
	}
}

// with returns the encoder of the same events with another payload, which is not made from what the log had before.
func (e *Encoder) with(p Payload) *Encoder {
	other := *e
	other.cfg.Payload, other.payload, other.object = p, p, nil
	other.secret = other.redactsSecrets(other.cfg)
	other.change, other.marker = other.heads(sourceOf(e.cfg.Cluster, e.stream.Resource))
	return &other
}

func (e *Encoder) check() {
	if e.cfg.Mode != Binary && e.cfg.Mode != Structured {
		panic("BUG: mode " + strconv.Quote(string(e.cfg.Mode)))
	}
	if p := e.cfg.Payload; p != Object && p != Metadata && !p.FromOld() || p.FromOld() && e.cfg.Profile == Knative {
		panic("BUG: payload " + strconv.Quote(string(p)) + " in profile " + strconv.Quote(string(e.cfg.Profile)))
	}
	if p := e.cfg.Profile; p != "" && p != Own && p != Knative || p == Knative && e.cfg.Host == "" {
		panic("BUG: profile " + strconv.Quote(string(p)) + " with host " + strconv.Quote(e.cfg.Host))
	}
	for _, k := range e.cfg.Keep {
		if k != KeepManagedFields && k != KeepLastApplied {
			panic("BUG: keep " + strconv.Quote(k))
		}
	}
}

// Subject returns the subject or topic of an object's events.
func (e *envelope) Subject(namespace, name string) string {
	return either(string(e.subject.append(nil, namespace, name)), e.subject.constant)
}

// Change fills m with the event of c, of which the log has nothing that is known where the payload is made from that.
// c's body stays the caller's. The error says that the body is not a JSON object; m is then not to be used.
func (e *Encoder) Change(m *sink.Message, c *source.Change) error {
	if e.cfg.Payload.FromOld() {
		_, err := e.ChangeFrom(m, c, Old{}, nil)
		return err
	}
	return e.write(m, c, false)
}

// write fills m with the event of c. Elsewhere says that a value is replaced in data that the event refers to.
func (e *Encoder) write(m *sink.Message, c *source.Change, elsewhere bool) error {
	var v view
	if err := e.look(&v, c); err != nil {
		return err
	}
	e.begin(m, c, &v.walk, kind{typ: e.typeOf(c.Op), redacted: v.redacted || elsewhere})
	m.Data = slices.Grow(m.Data, len(v.body)+len(e.identity)+2)
	m.Data = e.appendView(m.Data, c, &v)
	e.end(m)
	return nil
}

// view is what is found out of a change's object before anything of it is written.
type view struct {
	walk
	body []byte
	// read is what is written of an object that was decoded: a Secret. Decoded: it is one, or there is no object.
	read    []byte
	decoded bool
	// redacted says that what is written has a value that was replaced, or lacks what could not be read of a Secret.
	redacted bool
}

// look finds out how a change's object is written. The error says that it is not a JSON object.
func (o *content) look(v *view, c *source.Change) error {
	v.body = c.Body.Bytes()
	switch {
	case c.Body == nil:
		v.decoded = true
		return nil
	case o.secret != nil:
		o.lookRedacted(v, c)
		return nil
	}
	v.keepManaged, v.keepApplied, v.dropCopies = o.keepManaged, o.keepApplied, o.redaction != nil
	err := v.object(v.body)
	c.Written = v.changed.seconds()
	if err == nil && o.redaction != nil {
		err = o.mark(v.body, &v.walk)
	}
	if err != nil {
		return fmt.Errorf("encode %s %s: %w", o.resource, c.Key(), err)
	}
	written := jsonscan.Span{To: len(v.body)}
	if o.payload == Metadata {
		written = v.metadata
	}
	v.redacted = v.edits.Replaces(v.body, written)
	return nil
}

// lookRedacted looks at a Secret.
func (o *content) lookRedacted(v *view, c *source.Change) {
	v.decoded = true
	data, masked, err := o.secret.Apply(v.body, c.Namespace, c.Name)
	if err == nil && o.redaction != nil {
		var more bool
		data, more, err = o.redaction.Apply(data)
		masked = masked || more
	}
	if err == nil {
		err = v.object(v.body)
		c.Written = v.changed.seconds()
	}
	// What is not valid JSON is not searched for attributes either: they might be anything.
	if err == nil && len(data) > len("{}") {
		v.read = data
	}
	v.redacted = masked || err != nil
}

// appendView appends an event's data: the object, or its metadata.
func (o *content) appendView(dst []byte, c *source.Change, v *view) []byte {
	switch {
	case v.read != nil:
		return append(o.open(dst, c), v.read[1:]...)
	case v.decoded:
		return o.appendIdentity(dst, c)
	case o.payload != Metadata:
		return v.edits.Copy(dst, v.body, jsonscan.Span{To: len(v.body)})
	case v.metadata == jsonscan.Span{}:
		return o.appendIdentity(dst, c)
	default:
		dst = v.edits.Copy(append(o.open(dst, c), o.identity[1:]...), v.body, v.metadata)
		return append(dst, '}')
	}
}

// Rejected fills m with the event that stands in the place of c's, which the broker refused for good because of cause:
// its subject, key and attributes, and its type, the cause and its size in bytes as data. The attribute redacted is
// never there: no value of the object is in the data. It works for every change, also for one that Change refuses.
func (e *Encoder) Rejected(m *sink.Message, c *source.Change, cause error, size int) {
	var w walk
	body := c.Body.Bytes()
	if w.object(body) != nil || (e.secret != nil || e.redaction != nil) && !redact.Valid(body) {
		w = walk{}
	}
	e.begin(m, c, &w, kind{typ: TypeRejected, tail: ".rejected"})
	m.Data = jsonscan.AppendQuoted(append(m.Data, `{"type":`...), e.typeOf(c.Op))
	m.Data = jsonscan.AppendQuoted(append(m.Data, `,"error":`...), cause.Error())
	m.Data = strconv.AppendInt(append(m.Data, `,"size":`...), int64(size), 10)
	m.Data = append(m.Data, '}')
	e.end(m)
}

// appendIdentity appends an object that has nothing but its identity.
func (o *content) appendIdentity(dst []byte, c *source.Change) []byte {
	dst = append(o.open(dst, c), o.identity[1:]...)
	dst = jsonscan.AppendQuoted(append(dst, `{"name":`...), c.Name)
	for _, m := range [...]struct{ name, value string }{
		{`,"namespace":`, c.Namespace}, {`,"uid":`, c.UID}, {`,"resourceVersion":`, c.ResourceVersion},
	} {
		if m.value != "" {
			dst = jsonscan.AppendQuoted(append(dst, m.name...), m.value)
		}
	}
	return append(dst, "}}"...)
}

// int32s keeps an integer attribute within what CloudEvents allows.
func int32s(n int) string { return strconv.Itoa(min(n, math.MaxInt32)) }
