// SPDX-License-Identifier: Apache-2.0

package encode

import (
	"bytes"
	"context"
	"encoding/json"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cloudevents/sdk-go/v2/binding"
	"github.com/cloudevents/sdk-go/v2/binding/format"
	"github.com/cloudevents/sdk-go/v2/binding/spec"
	"github.com/cloudevents/sdk-go/v2/event"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
	"github.com/kube-eventbridge/kube-eventbridge/sink"
	"github.com/kube-eventbridge/kube-eventbridge/source"
)

// received is a message as a binding of the CloudEvents SDK presents it.
type received struct{ m *sink.Message }

func (r received) ReadEncoding() binding.Encoding {
	if strings.HasPrefix(r.m.ContentType, "application/cloudevents") {
		return binding.EncodingStructured
	}
	return binding.EncodingBinary
}

func (r received) ReadStructured(ctx context.Context, w binding.StructuredWriter) error {
	if r.ReadEncoding() != binding.EncodingStructured {
		return binding.ErrNotStructured
	}
	return w.SetStructuredEvent(ctx, format.Lookup(r.m.ContentType), bytes.NewReader(r.m.Data))
}

func (r received) ReadBinary(_ context.Context, w binding.BinaryWriter) error {
	if r.ReadEncoding() != binding.EncodingBinary {
		return binding.ErrNotBinary
	}
	version := spec.New().Version(attribute(r.m, "specversion"))
	for _, a := range r.m.Attributes {
		var err error
		if known := version.Attribute(a.Name); known != nil {
			err = w.SetAttribute(known, a.Value)
		} else {
			err = w.SetExtension(a.Name, a.Value)
		}
		if err != nil {
			return err
		}
	}
	return w.SetData(bytes.NewReader(r.m.Data))
}

func (r received) GetAttribute(kind spec.Kind) (spec.Attribute, any) {
	a := spec.New().Version("1.0").AttributeFromKind(kind)
	return a, attribute(r.m, a.Name())
}

func (r received) GetExtension(name string) any { return attribute(r.m, name) }

func (received) Finish(error) error { return nil }

// everyMessage runs check for each form of message.
func everyMessage(t *testing.T, check func(t *testing.T, m *sink.Message, e *event.Event)) {
	t.Helper()
	for _, w := range wireCases(t) {
		t.Run(w.name, func(t *testing.T) {
			m := w.message(t)
			e := must.Get(binding.ToEvent(t.Context(), received{m}))(t)
			check(t, m, e)
		})
	}
}

// attributesOf returns the attributes of an event in the SDK's view, as text.
func attributesOf(t *testing.T, e *event.Event) map[string]string {
	t.Helper()
	as := map[string]string{
		"specversion": e.SpecVersion(), "type": e.Type(), "source": e.Source(), "id": e.ID(),
		"datacontenttype": e.DataContentType(),
		"time":            e.Time().UTC().Format(time.RFC3339Nano),
	}
	if e.Subject() != "" {
		as["subject"] = e.Subject()
	}
	for name, v := range e.Extensions() {
		switch v := v.(type) {
		case string:
			as[name] = v
		case int32:
			as[name] = strconv.Itoa(int(v))
		default:
			t.Errorf("%s is a %T", name, v)
		}
	}
	return as
}

func TestMessages_are_read_by_the_CloudEvents_SDK_with_the_same_attributes_and_data(t *testing.T) {
	everyMessage(t, func(t *testing.T, m *sink.Message, e *event.Event) {
		require.NoError(t, e.Validate())
		got, want, data := attributesOf(t, e), map[string]string{}, m.Data
		for _, a := range m.Attributes {
			want[a.Name] = a.Value
		}
		if len(m.Attributes) == 0 {
			want, data = structuredParts(t, m.Data)
		}
		for name, v := range want {
			assert.Equal(t, v, got[name], name)
		}
		assert.Len(t, got, len(want), "attributes, want %v", want)
		assert.Equal(t, data, e.Data(), "data")
	})
}

func structuredParts(t *testing.T, b []byte) (map[string]string, []byte) {
	t.Helper()
	var members map[string]json.RawMessage
	require.NoError(t, json.Unmarshal(b, &members))
	as := map[string]string{}
	for name, v := range members {
		var s string
		if json.Unmarshal(v, &s) != nil {
			s = string(v)
		}
		as[name] = s
	}
	delete(as, "data")
	return as, members["data"]
}

func TestModes_carry_the_same_event(t *testing.T) {
	for _, w := range wireCases(t) {
		var events []*event.Event
		for _, mode := range []Mode{Binary, Structured} {
			cfg, m := config(), dirty()
			w.config(&cfg)
			cfg.Mode = mode
			w.write(t, New(w.stream, cfg), m)
			e, err := binding.ToEvent(t.Context(), received{m})
			require.NoError(t, err, w.name)
			events = append(events, e)
		}
		a, b := attributesOf(t, events[0]), attributesOf(t, events[1])
		assert.True(t, bytes.Equal(events[0].Data(), events[1].Data()) && len(a) == len(b),
			"%s: binary %v, structured %v", w.name, events[0], events[1])
		for name := range a {
			assert.Equal(t, b[name], a[name],
				"%s: %s is %q in binary mode, %q in structured mode", w.name, name, a[name], b[name])
		}
	}
}

func TestInterop_rule_1_datacontenttype_is_application_json(t *testing.T) {
	everyMessage(t, func(t *testing.T, _ *sink.Message, e *event.Event) {
		assert.Equal(t, "application/json", e.DataContentType(), "datacontenttype")
		assert.NotNil(t, e.Extensions()["payload"], "payload is missing")
	})
}

func TestInterop_rule_2_no_event_without_data(t *testing.T) {
	everyMessage(t, func(t *testing.T, _ *sink.Message, e *event.Event) {
		var o any
		err := json.Unmarshal(e.Data(), &o)
		_, object := o.(map[string]any)
		if _, list := o.([]any); err != nil || list != (e.Extensions()["payload"] == string(JSONPatch)) || !list && !object {
			t.Errorf("data is %q, not an object, nor a JSON patch: %v", e.Data(), err)
		}
	})
}

func TestInterop_rule_3_time_is_always_there(t *testing.T) {
	everyMessage(t, func(t *testing.T, m *sink.Message, e *event.Event) {
		assert.False(t, e.Time().IsZero(), "time or recordedtime is missing")
		assert.NotNil(t, e.Extensions()["recordedtime"], "time or recordedtime is missing")
		// A SDK that cuts to milliseconds changes nothing.
		assert.Equal(t, 0, e.Time().Nanosecond()%int(time.Millisecond), "time is %s", e.Time())
		s := attribute(m, "time")
		assert.True(t, s == "" || strings.HasSuffix(s, "Z"), "time is %s", s)
	})
}

func TestInterop_rule_4_an_empty_attribute_is_absent(t *testing.T) {
	everyMessage(t, func(t *testing.T, _ *sink.Message, e *event.Event) {
		for name, v := range attributesOf(t, e) {
			assert.NotEmpty(t, v, "%s is empty", name)
		}
	})
	m := dirty()
	e := New(source.Stream{Resource: source.Resource{Version: "v1", Resource: "things"}}, Config{Cluster: "c"})
	require.NoError(t, e.Change(m, &source.Change{Op: source.Added, Ident: source.Ident{Name: "n"}}))
	for _, a := range m.Attributes {
		assert.NotEmpty(t, a.Value, "%s is empty", a.Name)
	}
}

func TestInterop_rule_5_the_key_is_the_partitionkey(t *testing.T) {
	everyMessage(t, func(t *testing.T, m *sink.Message, e *event.Event) {
		assert.True(t, m.Key != "" && e.Extensions()["partitionkey"] == m.Key,
			"key is %q, partitionkey %q", m.Key, e.Extensions()["partitionkey"])
	})
}

func TestInterop_rule_6_a_structured_message_has_no_attributes(t *testing.T) {
	everyMessage(t, func(t *testing.T, m *sink.Message, _ *event.Event) {
		structured := m.ContentType == "application/cloudevents+json"
		assert.Equal(t, (len(m.Attributes) == 0), structured,
			"content type %s, %d attributes", m.ContentType, len(m.Attributes))
	})
}

func TestInterop_rule_7_names_are_lower_case_and_media_types_are_bare(t *testing.T) {
	name := regexp.MustCompile(`^[a-z0-9]{1,15}$`)
	everyMessage(t, func(t *testing.T, m *sink.Message, e *event.Event) {
		for n := range attributesOf(t, e) {
			if !name.MatchString(n) || slices.Contains([]string{
				"kafkaoffset", "kafkapartition", "kafkatopic", "authtype",
				"authid",
			}, n) {
				t.Errorf("attribute %q", n)
			}
		}
		assert.True(t, m.ContentType == "application/json" || m.ContentType == "application/cloudevents+json",
			"content type %q", m.ContentType)
	})
}

// Escaping is the binding's: an attribute is plain text here, and what users choose freely, the cluster, needs none.
func TestInterop_rule_8_attributes_are_plain_text(t *testing.T) {
	c, m := ident(source.Added, "{}"), dirty()
	c.Name = `100% "ö" rôle`
	require.NoError(t, New(source.Stream{Resource: pods}, config()).Change(m, c))
	assert.Equal(t, c.Name, attribute(m, "name"), "name, subject")
	assert.Equal(t, "ns/"+c.Name, attribute(m, "subject"), "name, subject")
	for _, s := range []string{attribute(m, "source"), attribute(m, "clustername")} {
		if strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r > '~' || r == '"' || r == '%' }) {
			t.Errorf("%q needs escaping", s)
		}
	}
}

func TestInterop_rule_9_integers_fit_int32_and_versions_are_strings(t *testing.T) {
	if strconv.IntSize < 64 {
		t.Skip("an int cannot be too large here")
	}
	for _, mode := range []Mode{Binary, Structured} {
		cfg, c, m := config(), ident(source.Added, "{}"), dirty()
		cfg.Mode, cfg.WriterTerm, c.Count = mode, math.MaxInt, math.MaxInt
		require.NoError(t, New(source.Stream{Resource: pods}, cfg).Change(m, c))
		e := must.Get(binding.ToEvent(t.Context(), received{m}))(t)
		for _, name := range []string{"sampledrate", "writerterm"} {
			want := any("2147483647")
			if mode == Structured {
				want = int32(math.MaxInt32)
			}
			got := e.Extensions()[name]
			assert.True(t, got == want, "%s: %s is %T %v, want %T %v", mode, name, got, got, want, want)
		}
		for _, name := range []string{"resourceversion", "sequence"} {
			_, ok := e.Extensions()[name].(string)
			assert.True(t, ok, "%s: %s is %T, want a string", mode, name, e.Extensions()[name])
		}
	}
}
