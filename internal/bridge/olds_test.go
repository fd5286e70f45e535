// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/client-go/rest"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
	"github.com/kube-eventbridge/kube-eventbridge/encode"
	"github.com/kube-eventbridge/kube-eventbridge/sink"
	"github.com/kube-eventbridge/kube-eventbridge/source"
)

// frame is what a watch shows at a version.
type frame struct {
	op        source.Op
	name, uid string
	version   int
	body      string
}

// past is what happened to some objects, one frame a version from 1 on, and an API server that remembers it.
type past struct {
	frames []frame
	// gone is up to which version the API server has forgotten it.
	gone int
	// asked is how often it was asked for a list.
	asked int
}

// newPast makes objects that are created, changed and deleted at random.
func newPast(random *rand.Rand, n int) *past {
	p, alive := &past{}, map[string]map[string]any{}
	for version := 1; version <= n; version++ {
		f := frame{op: source.Updated, name: "o" + strconv.Itoa(random.IntN(5)), version: version}
		object := alive[f.name]
		switch {
		case object == nil:
			f.op = source.Added
			object = map[string]any{
				"kind": "ConfigMap", "apiVersion": "v1", "fill": strings.Repeat("x", 300), "data": map[string]any{},
				"metadata": map[string]any{"name": f.name, "namespace": "default", "uid": "u" + strconv.Itoa(version)},
			}
			alive[f.name] = object
		case random.IntN(12) == 0:
			f.op = source.Deleted
			delete(alive, f.name)
		}
		data := object["data"].(map[string]any)
		for range 2 {
			if key := "k" + strconv.Itoa(random.IntN(6)); random.IntN(3) == 0 {
				delete(data, key)
			} else {
				data[key] = strconv.Itoa(random.IntN(3))
			}
		}
		metadata := object["metadata"].(map[string]any)
		metadata["resourceVersion"] = strconv.Itoa(version)
		f.uid = metadata["uid"].(string)
		body, err := json.Marshal(object)
		if err != nil {
			panic(err)
		}
		f.body = string(body)
		p.frames = append(p.frames, f)
	}
	return p
}

// at returns the objects that existed at a version.
func (p *past) at(version int) (items []string) {
	last := map[string]frame{}
	for _, f := range p.frames[:min(version, len(p.frames))] {
		last[f.name] = f
	}
	for _, f := range last {
		if f.op != source.Deleted {
			items = append(items, f.body)
		}
	}
	return items
}

func (p *past) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.asked++
	version, _ := strconv.Atoi(r.URL.Query().Get("resourceVersion"))
	w.Header().Set("Content-Type", "application/json")
	if version <= p.gone || r.URL.Query().Get("resourceVersionMatch") != "Exact" {
		w.WriteHeader(http.StatusGone)
		_, _ = w.Write([]byte(`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Expired","code":410}`))
		return
	}
	_, _ = fmt.Fprintf(w, `{"kind":"ConfigMapList","apiVersion":"v1","metadata":{"resourceVersion":"%d"},"items":[%s]}`, version, strings.Join(p.at(version), ","))
}

// client asks p.
func (p *past) client(t *testing.T) *source.Client {
	t.Helper()
	server := httptest.NewServer(p)
	client, err := source.NewClient(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		client.CloseIdleConnections()
		server.Close()
	})
	return client
}

func (f frame) send(t *testing.T, s *stream) {
	t.Helper()
	body := source.NewBody([]byte(f.body))
	version := strconv.Itoa(f.version)
	ticket, err := s.Admit(t.Context(), version, len(f.body))
	if err != nil {
		t.Fatal(err)
	}
	s.Deliver(source.Change{
		Op: f.op, Ident: source.Ident{Namespace: "default", Name: f.name, UID: f.uid, ResourceVersion: version},
		Body: body, Reason: source.ReasonWatch, Seen: time.Now(), Ticket: ticket, Size: len(f.body),
	})
}

// merged applies a merge patch as RFC 7386 has it.
func merged(target, patch any) any {
	p, ok := patch.(map[string]any)
	if !ok {
		return patch
	}
	out := map[string]any{}
	if t, ok := target.(map[string]any); ok {
		for name, value := range t {
			out[name] = value
		}
	}
	for name, value := range p {
		if value == nil {
			delete(out, name)
		} else {
			out[name] = merged(out[name], value)
		}
	}
	return out
}

// reader applies the events of a log.
type reader struct {
	objects  map[string]any
	versions map[string]string
	// count is how many events there were of each payload.
	count map[string]int
}

func newReader() *reader {
	return &reader{map[string]any{}, map[string]string{}, map[string]int{}}
}

func (r *reader) take(m *sink.Stored) error {
	state, err := encode.StateOf(m)
	if err != nil || state.UID == "" {
		return err
	}
	key, payload, base := state.Key(), attribute(m, "payload"), attribute(m, "baseversion")
	if attribute(m, "datasize") != "" || state.Rejected {
		r.objects[key], r.versions[key] = nil, ""
		return nil
	}
	r.count[payload]++
	if base != "" && base != r.versions[key] {
		return fmt.Errorf("%s applies to %s, and the log has %q before it", state.ID, base, r.versions[key])
	}
	var data any
	if err := json.Unmarshal(m.Data, &data); err != nil {
		return err
	}
	switch payload {
	case "merge-patch":
		data = merged(r.objects[key], data)
	case "change":
		both := data.(map[string]any)
		if old, ok := both["oldObject"]; ok && !reflect.DeepEqual(old, r.objects[key]) || ok != (base != "") {
			return fmt.Errorf("%s: oldObject is %v, and the log has %v", state.ID, old, r.objects[key])
		}
		data = both["object"]
	}
	r.objects[key], r.versions[key] = data, state.ResourceVersion
	return nil
}

// check compares what a reader has after each event with the object at that version.
func (p *past) check(t *testing.T, log *fakeLog, r *reader) {
	t.Helper()
	for i := range log.log {
		m := &log.log[i]
		if err := r.take(m); err != nil {
			t.Fatal(err)
		}
		state, err := encode.StateOf(m)
		if err != nil || state.UID == "" || r.objects[state.Key()] == nil {
			continue
		}
		version, _ := strconv.Atoi(state.ResourceVersion)
		var want any
		if err := json.Unmarshal([]byte(p.frames[version-1].body), &want); err != nil {
			t.Fatal(err)
		}
		got := r.objects[state.Key()]
		if whole, ok := got.(map[string]any); ok && state.Deleted && whole["fill"] == nil {
			continue // only the identity was known
		}
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("after %s a reader has\n%v\nwant\n%v", state.ID, got, want)
		}
	}
}

// sevenths leaves out every seventh version.
type sevenths struct{}

func (sevenths) Filter(c *source.Change, _ [16]byte, _ func() []byte) (reason string, now [16]byte, err error) {
	if n, _ := strconv.Atoi(c.ResourceVersion); n%7 == 0 {
		return "expression", now, nil
	}
	return "", now, nil
}

// Whatever fails: what a reader makes of the events is what whole objects would have said.
func TestOlds_whoever_applies_all_events_has_every_object_under_faults_and_crashes(t *testing.T) {
	counted := map[string]int{}
	for seed := range uint64(24) {
		random := rand.New(rand.NewPCG(seed, 5))
		log, store, p := newReadableLog(), &memoryStore{}, newPast(random, 400)
		client := p.client(t)
		log.faults = flaky(seed)
		if seed%4 == 1 {
			log.refuse = func(m *sink.Message) bool {
				return strings.Contains(m.Subject, "o1") && len(m.Data)%3 == 0 && !strings.HasSuffix(m.ID, ".rejected")
			}
		}
		var to sink.Sink = log
		if seed%5 == 0 {
			to = log.fakeLog // one that cannot be read back
		}
		for at, crashes := 0, 0; crashes < 3 || at < len(p.frames); crashes++ {
			r := start(t, to, store)
			r.cfg.Client = client
			spec := &StreamSpec{Encoding: encode.Config{Payload: []encode.Payload{encode.MergePatch, encode.Change}[seed%2]}, Latest: seed%3 == 1}
			if seed%3 == 2 {
				spec.Filter = sevenths{}
			}
			s := r.stream(spec)
			s.saved.Fingerprint = s.fingerprint // as behind a first list
			p.gone = random.IntN(2) * at
			if err := s.prime(t.Context()); err != nil {
				t.Fatal(err)
			}
			at, _ = strconv.Atoi(s.tracker.Position())
			end := min(len(p.frames), at+1+random.IntN(200))
			for i, f := range p.frames[at:end] {
				f.send(t, s)
				if i%50 == 49 {
					if err := r.commit(t.Context()); err != nil {
						t.Fatal(err)
					}
				}
			}
			if end == len(p.frames) {
				r.settle()
			}
			_ = r.stop()
			at = end
			if random.IntN(2) == 0 {
				log.forgetIDs()
			}
		}
		reads := newReader()
		p.check(t, log.fakeLog, reads)
		for payload, n := range reads.count {
			counted[payload] += n
		}
	}
	if counted["merge-patch"] < counted["object"]/2 || counted["change"] == 0 {
		t.Errorf("too few are patches: %v", counted)
	}
}

// restarted returns a stream of a pipeline that has published the frames, and was stopped and started since.
func restarted(t *testing.T, log readableLog, p *past, n int, before, after StreamSpec) (*rig, *stream) {
	t.Helper()
	store := &memoryStore{}
	r := start(t, log, store)
	s := r.stream(&before)
	s.saved.Fingerprint = s.fingerprint // as behind a first list
	for _, f := range p.frames[:n] {
		f.send(t, s)
	}
	r.settle()
	if err := r.commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	_ = r.stop()
	r = start(t, log, store)
	r.cfg.Client = p.client(t)
	s = r.stream(&after)
	if err := s.prime(t.Context()); err != nil {
		t.Fatal(err)
	}
	return r, s
}

func story(bodies ...string) *past {
	p := &past{}
	for i, b := range bodies {
		op := source.Updated
		if i == 0 {
			op = source.Added
		}
		p.frames = append(p.frames, frame{op, "a", "u1", i + 1, `{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"a","namespace":"default","uid":"u1","resourceVersion":"` +
			strconv.Itoa(i+1) + `"},"fill":"` + strings.Repeat("x", 200) + `",` + b + `}`})
	}
	return p
}

// What a process has published before is a base only if it is what the next one would have published.
func TestPrime_finds_what_the_log_has(t *testing.T) {
	patches := StreamSpec{Encoding: encode.Config{Payload: encode.MergePatch}}
	redacted := StreamSpec{Encoding: encode.Config{Payload: encode.MergePatch, Redact: []encode.Path{parsed(t, "data.x")}}}
	left := StreamSpec{Encoding: encode.Config{Payload: encode.MergePatch}, Filter: sevenths{}}
	for name, c := range map[string]struct {
		before, after StreamSpec
		n, gone       int
		refuse        func(*sink.Message) bool
		want          string
	}{
		"it is there":                   {before: patches, after: patches, n: 2, want: "merge-patch 2"},
		"as another patch":              {before: patches, after: StreamSpec{Encoding: encode.Config{Payload: encode.JSONPatch}}, n: 2, want: "json-patch 2"},
		"the API server has forgotten":  {before: patches, after: patches, n: 2, gone: 2, want: "object "},
		"it was redacted less":          {before: patches, after: redacted, n: 2, want: "object "},
		"it was redacted more":          {before: redacted, after: patches, n: 2, want: "object "},
		"whole objects were published":  {before: StreamSpec{}, after: patches, n: 2, want: "object "},
		"the last state was left out":   {before: left, after: patches, n: 7, want: "object "},
		"one before it was left out":    {before: left, after: patches, n: 8, want: "merge-patch 8"},
		"the last state was refused":    {before: patches, after: patches, n: 2, want: "object ", refuse: func(m *sink.Message) bool { return strings.HasSuffix(m.ID, ".2") }},
		"whole objects are asked for":   {before: patches, after: StreamSpec{}, n: 2, want: "object "},
		"the state before is asked for": {before: patches, after: StreamSpec{Encoding: encode.Config{Payload: encode.Change}}, n: 2, want: "change 2"},
	} {
		t.Run(name, func(t *testing.T) {
			log := newReadableLog()
			log.refuse = c.refuse
			p := story(`"data":{"x":"1"}`, `"data":{"x":"2"}`, `"data":{"x":"3"}`, `"data":{"x":"4"}`, `"data":{"x":"5"}`, `"data":{"x":"6"}`, `"data":{"x":"7"}`,
				`"data":{"x":"8"}`, `"data":{"x":"9"}`)
			p.gone = c.gone
			r, s := restarted(t, log, p, c.n, c.before, c.after)
			p.frames[c.n].send(t, s)
			r.settle()
			m := &log.log[len(log.log)-1]
			if got := attribute(m, "payload") + " " + attribute(m, "baseversion"); got != c.want {
				t.Errorf("got %s, want %s: %s", got, c.want, m.Data)
			}
		})
	}
}

func parsed(t *testing.T, s string) encode.Path {
	t.Helper()
	p, err := encode.ParsePath(s)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestPrime_asks_nothing_that_nobody_wants(t *testing.T) {
	p := story(`"data":{}`, `"data":{}`)
	restarted(t, newReadableLog(), p, 2, StreamSpec{}, StreamSpec{})
	if p.asked != 0 {
		t.Errorf("%d lists were asked for", p.asked)
	}
	r := start(t, newReadableLog(), &memoryStore{})
	r.cfg.Client = p.client(t)
	if err := r.stream(&StreamSpec{Olds: true}).prime(t.Context()); err != nil || p.asked != 0 {
		t.Errorf("%d lists were asked for where there was nothing before, %v", p.asked, err)
	}
}

// asking says of each change what it is told of the state before.
type asking struct{ told *[]string }

func (f asking) Filter(c *source.Change, _ [16]byte, old func() []byte) (reason string, now [16]byte, err error) {
	was := "added"
	if c.Op != source.Added {
		if was = "unknown"; old != nil {
			if b := old(); b != nil {
				_, rest, _ := strings.Cut(string(b), `"data":{"x":"`)
				was, _, _ = strings.Cut(rest, `"`)
			}
		}
	}
	*f.told = append(*f.told, c.ResourceVersion+" "+was)
	if was == "unknown" {
		return "", now, errors.New("unknown")
	}
	if n, _ := strconv.Atoi(c.ResourceVersion); n%2 == 0 {
		return "expression", now, nil
	}
	return "", now, nil
}

func TestOlds_a_filter_is_told_the_state_before_published_or_not(t *testing.T) {
	var told []string
	spec := StreamSpec{Filter: asking{&told}, Olds: true}
	log := newReadableLog()
	p := story(`"data":{"x":"a"}`, `"data":{"x":"b"}`, `"data":{"x":"c"}`, `"data":{"x":"d"}`, `"data":{"x":"e"}`)
	r, s := restarted(t, log, p, 4, spec, spec)
	p.frames[4].send(t, s)
	r.settle()
	send(t, s, source.Deleted, "a", "u1", "6", source.ReasonWatch)
	send(t, s, source.Added, "a", "u2", "7", source.ReasonWatch)
	r.settle()
	expect(t, told, "1 added", "2 a", "3 b", "4 c", "5 d", "6 e", "7 added")
	if n := value(t, r.registry, "filter_errors_total") + value(t, r.registry, "old_objects_unknown_total"); n != 0 {
		t.Errorf("%v errors", n)
	}
	if n := value(t, r.registry, "old_objects"); n != 1 {
		t.Errorf("of %v objects something is kept", n)
	}
}

func TestOlds_what_depends_on_a_state_that_is_not_known_is_published_and_no_fault_of_the_filter(t *testing.T) {
	var told []string
	spec := StreamSpec{Filter: asking{&told}, Olds: true, Encoding: encode.Config{Payload: encode.MergePatch}} // which asks too
	log := newReadableLog()
	p := story(`"data":{"x":"a"}`, `"data":{"x":"b"}`, `"data":{"x":"c"}`, `"data":{"x":"d"}`)
	p.gone = 10
	r, s := restarted(t, log, p, 3, spec, spec)
	p.frames[3].send(t, s)
	r.settle()
	expect(t, told, "1 added", "2 a", "3 b", "4 unknown")
	expect(t, log.lines(), "added default/a u1 1 watch", "updated default/a u1 3 watch", "updated default/a u1 4 watch")
	if errs, unknown := value(t, r.registry, "filter_errors_total"), value(t, r.registry, "old_objects_unknown_total"); errs != 0 || unknown != 1 {
		t.Errorf("%v errors and %v unknown are counted", errs, unknown)
	}
}

// Who asks for something to be published again may have nothing to apply a patch to. Consumers that are up to date pass over it, so that nothing applies to it either.
func TestOlds_what_is_published_again_is_whole_and_no_base(t *testing.T) {
	log := newFakeLog()
	r := start(t, log, &memoryStore{})
	s := r.stream(&StreamSpec{Encoding: encode.Config{Payload: encode.MergePatch}})
	p := story(`"data":{"x":"a"}`, `"data":{"x":"b"}`, `"data":{"x":"c"}`, `"data":{"x":"d"}`, `"data":{"x":"e"}`)
	for _, f := range p.frames[:2] {
		f.send(t, s)
	}
	r.settle()
	s.mu.Lock()
	s.saved.Repair = "3"
	s.mu.Unlock()
	for _, f := range p.frames[2:] {
		f.send(t, s)
	}
	r.settle()
	var got []string
	for i := range log.log {
		got = append(got, attribute(&log.log[i], "payload"))
	}
	expect(t, got, "object", "merge-patch", "object", "object", "merge-patch")
	p.check(t, log, newReader())
}

// republish publishes a frame again, as a resync does.
func (f frame) republish(t *testing.T, s *stream) {
	t.Helper()
	s.status.State(source.Watching, nil)
	s.tracker.Bookmark(strconv.Itoa(f.version))
	id := source.Ident{Namespace: "default", Name: f.name, UID: f.uid, ResourceVersion: strconv.Itoa(f.version)}
	if ok, err := s.republishOne(t.Context(), id, frameContent(f.body), ".r7", rate.NewLimiter(rate.Inf, 1)); !ok || err != nil {
		t.Fatal(ok, err)
	}
}

type frameContent string

func (c frameContent) Size() int { return len(c) }

func (c frameContent) Body() *source.Body { return source.NewBody([]byte(c)) }

// passing reads as a consumer does that is up to date: what has no greater version is passed over.
func passing(t *testing.T, log *fakeLog) *reader {
	t.Helper()
	r, last := newReader(), map[string]int{}
	for i := range log.log {
		m := &log.log[i]
		state, err := encode.StateOf(m)
		if err != nil {
			t.Fatal(err)
		}
		version, _ := strconv.Atoi(state.ResourceVersion)
		if version <= last[state.Key()] {
			continue
		}
		last[state.Key()] = version
		if err := r.take(m); err != nil {
			t.Fatal(err)
		}
	}
	return r
}

func TestOlds_what_a_resync_publishes_otherwise_than_it_was_is_no_base(t *testing.T) {
	redacted := StreamSpec{Encoding: encode.Config{Payload: encode.MergePatch, Redact: []encode.Path{parsed(t, "data.secret")}}}
	log, p := newReadableLog(), story(`"data":{"secret":"hunter2","y":"1"}`, `"data":{"secret":"hunter2","y":"2"}`)
	r, s := restarted(t, log, p, 1, StreamSpec{Encoding: encode.Config{Payload: encode.MergePatch}}, redacted)
	p.frames[0].republish(t, s)
	r.settle()
	if row, _ := s.ledger.Get("default/a"); row.Form != 0 {
		t.Errorf("a restart would take it for a base: %+v", row)
	}
	p.frames[1].send(t, s)
	r.settle()
	data := passing(t, log.fakeLog).objects["default/a"].(map[string]any)["data"].(map[string]any)
	if data["secret"] == "hunter2" || data["y"] != "2" {
		t.Errorf("who is up to date has %v", data)
	}
}

// The event was refused; the broker's limit is raised, and a resync publishes its object.
func TestOlds_what_only_a_resync_has_published_is_no_base(t *testing.T) {
	log := newFakeLog()
	log.limit = 800
	r := start(t, log, &memoryStore{})
	s := r.stream(&StreamSpec{Encoding: encode.Config{Payload: encode.MergePatch}})
	s.saved.Fingerprint = s.fingerprint
	large := strings.Repeat("b", 900)
	p := story(`"data":{"x":"a"}`, `"data":{"x":"`+large+`","y":"1"}`, `"data":{"x":"`+large+`","y":"2"}`)
	for _, f := range p.frames[:2] {
		f.send(t, s)
		r.settle()
	}
	log.set(func() { log.limit = 0 })
	p.frames[1].republish(t, s)
	r.settle()
	p.frames[2].send(t, s)
	r.settle()
	data := passing(t, log).objects["default/a"].(map[string]any)["data"].(map[string]any)
	if len(log.log) != 4 || data["x"] != large || data["y"] != "2" {
		t.Errorf("of %d events, who is up to date has %v", len(log.log), data)
	}
}

// parted is a topic whose keys are in another partition once it has more of them.
type parted struct {
	*fakeLog
	partition int32
	of        map[string]int32
}

func (p *parted) Publish(ctx context.Context, m *sink.Message, done sink.Done) {
	to := p.partition
	p.of[m.ID], m.Verify = to, false
	p.fakeLog.Publish(ctx, m, func(r sink.Receipt, err error) {
		r.Partition = to
		done(r, err)
	})
}

func TestOlds_are_no_base_in_another_partition(t *testing.T) {
	log := &parted{fakeLog: newFakeLog(), of: map[string]int32{}}
	r := start(t, log, &memoryStore{})
	s := r.stream(&StreamSpec{Encoding: encode.Config{Payload: encode.MergePatch}})
	p := story(`"data":{"x":"a"}`, `"data":{"x":"b"}`, `"data":{"x":"c"}`, `"data":{"x":"d"}`, `"data":{"x":"e"}`)
	for i, f := range p.frames {
		log.partition = int32(min(i/2, 1))
		f.send(t, s)
		r.settle()
		if row, _ := s.ledger.Get("default/a"); (row.Form == 0) != (i == 2) {
			t.Errorf("the row of event %d is %+v", i, row)
		}
	}
	var got []string
	for i := range log.log {
		m := &log.log[i]
		got = append(got, fmt.Sprint(log.of[m.ID], " ", attribute(m, "payload"), attribute(m, "baseversion")))
	}
	expect(t, got, "0 object", "0 merge-patch1", "1 merge-patch2", "1 object", "1 merge-patch4")
	p.check(t, log.fakeLog, newReader())
}

// Another version of the API server, or of a definition's schema, serves the same version of an object with other members.
func TestPrime_takes_nothing_that_is_served_otherwise_than_it_was_published(t *testing.T) {
	log, store, p := newReadableLog(), &memoryStore{}, story(`"data":{"y":"1"}`, `"data":{"y":"2"}`)
	spec := StreamSpec{Encoding: encode.Config{Payload: encode.MergePatch}}
	r := start(t, log, store)
	s := r.stream(&spec)
	s.saved.Fingerprint = s.fingerprint
	p.frames[0].send(t, s)
	s.tracker.Bookmark("1")
	r.settle()
	if err := r.commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	_ = r.stop()
	for i := range p.frames {
		p.frames[i].body = strings.Replace(p.frames[i].body, `"data":{`, `"policy":"Retain","data":{`, 1)
	}
	r = start(t, log, store)
	r.cfg.Client = p.client(t)
	s = r.stream(&spec)
	if err := s.prime(t.Context()); err != nil {
		t.Fatal(err)
	}
	p.frames[1].send(t, s)
	r.settle()
	got := passing(t, log.fakeLog)
	if object := got.objects["default/a"].(map[string]any); p.asked == 0 || object["policy"] != "Retain" || got.count["object"] != 2 {
		t.Errorf("who applies all events has %v, of %v", object, got.count)
	}
}

func TestOlds_a_filter_is_told_no_state_before_of_what_is_published_again(t *testing.T) {
	var told []string
	r := start(t, newFakeLog(), &memoryStore{})
	s := r.stream(&StreamSpec{Filter: asking{&told}, Olds: true})
	p := story(`"data":{"x":"a"}`, `"data":{"x":"b"}`)
	for _, f := range p.frames {
		f.send(t, s)
	}
	r.settle()
	row, _ := s.ledger.Get("default/a")
	a := &attempt{delta: delta{again: true, Change: source.Change{
		Op: source.Updated, Ident: source.Ident{Namespace: "default", Name: "a", UID: "u1", ResourceVersion: "2"}, IDSuffix: ".r5",
		Body: source.NewBody([]byte(p.frames[1].body)),
	}}}
	if s.filtered(a, row) {
		t.Error("it is left out")
	}
	expect(t, told, "1 added", "2 a", "2 unknown")
	if n := value(t, r.registry, "filter_errors_total") + value(t, r.registry, "old_objects_unknown_total"); n != 0 {
		t.Errorf("%v are counted", n)
	}
}

func TestOlds_an_event_that_is_too_large_with_what_was_before_is_published_without(t *testing.T) {
	log := newFakeLog()
	log.limit = 800
	r := start(t, log, &memoryStore{})
	s := r.stream(&StreamSpec{Encoding: encode.Config{Payload: encode.Change}})
	p := story(`"data":{"x":"a"}`, `"data":{"x":"b"}`, `"data":{"x":"`+strings.Repeat("c", 200)+`"}`, `"data":{"x":"d"}`, `"data":{"x":"`+strings.Repeat("e", 900)+`"}`, `"data":{"x":"f"}`)
	for _, f := range p.frames {
		f.send(t, s)
		r.settle()
	}
	var got []string
	for i := range log.log {
		m := &log.log[i]
		got = append(got, strings.TrimSpace(attribute(m, "resourceversion")+" "+strings.Split(attribute(m, "type"), ".")[3]+" "+attribute(m, "baseversion")))
	}
	expect(t, got, "1 added", "2 updated 1", "3 updated", "4 updated", "5 rejected", "6 updated")
	p.check(t, log, newReader())
	if n := value(t, r.registry, "publish_failures_total"); n != 1 {
		t.Errorf("%v failures are counted, want 1", n)
	}
}

// A log keeps no message for ever, and what comes behind the rest of it has to make sense without.
func TestOlds_what_the_log_has_no_more_is_no_base(t *testing.T) {
	log := newFakeLog()
	r := start(t, log, &memoryStore{})
	s := r.stream(&StreamSpec{Encoding: encode.Config{Payload: encode.MergePatch}})
	p := story(`"data":{"x":"a"}`, `"data":{"x":"b"}`, `"data":{"x":"c"}`, `"data":{"x":"d"}`)
	for i, f := range p.frames {
		f.send(t, s)
		r.settle()
		if i == 1 {
			log.set(func() { clear(log.last) })
		}
	}
	var got []string
	for i := range log.log {
		got = append(got, attribute(&log.log[i], "payload")+attribute(&log.log[i], "baseversion"))
	}
	expect(t, got, "object", "merge-patch1", "object", "merge-patch3")
}

// What a dead process has published behind what is known is not what the next event is made from.
func TestOlds_what_the_log_turns_out_to_have_is_no_base(t *testing.T) {
	log, store := newFakeLog(), &memoryStore{} // it cannot be read back
	patches := func() *StreamSpec { return &StreamSpec{Encoding: encode.Config{Payload: encode.MergePatch}} }
	p := story(`"data":{"x":"a"}`, `"data":{"x":"b"}`, `"data":{"x":"c","y":"c"}`, `"data":{"x":"c","z":"d"}`)
	r := start(t, log, store)
	s := r.stream(patches())
	s.saved.Fingerprint = s.fingerprint
	p.frames[0].send(t, s)
	p.frames[1].send(t, s)
	r.settle()
	if err := r.commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	p.frames[2].send(t, s)
	r.settle()
	_ = r.stop()
	log.forgetIDs()

	r = start(t, log, store)
	r.cfg.Client = p.client(t)
	s = r.stream(patches())
	if err := s.prime(t.Context()); err != nil {
		t.Fatal(err)
	}
	if objects, _ := s.olds.total(); objects != 1 {
		t.Fatalf("of %d objects it is known what was before", objects)
	}
	p.frames[2].send(t, s)
	p.frames[3].send(t, s)
	r.settle()
	expect(t, log.lines(), "added default/a u1 1 watch", "updated default/a u1 2 watch", "updated default/a u1 3 watch", "updated default/a u1 4 watch")
	p.check(t, log, newReader())
}

// The broker recognises a repetition by its id, and what it has may have been encoded by another configuration.
func TestOlds_what_the_broker_had_already_is_no_base(t *testing.T) {
	log, store := newFakeLog(), &memoryStore{}
	p := story(`"data":{"x":"a"}`, `"data":{"x":"b"}`, `"data":{"x":"c"}`)
	for _, redact := range [][]encode.Path{nil, {parsed(t, "data.x")}} {
		r := start(t, log, store)
		s := r.stream(&StreamSpec{Encoding: encode.Config{Payload: encode.MergePatch, Redact: redact}})
		for _, f := range p.frames[:2+len(redact)] {
			f.send(t, s)
		}
		r.settle()
		_ = r.stop()
	}
	if last := &log.log[len(log.log)-1]; attribute(last, "payload") != "object" || attribute(last, "resourceversion") != "3" {
		t.Errorf("the last event is %v", last.Attributes)
	}
}

func TestOlds_are_known_only_of_what_the_row_says(t *testing.T) {
	k := newOlds(&StreamSpec{Olds: true, Encoding: encode.Config{Payload: encode.Change}}, newPacker)
	k.put("a", old{uid: "u1", data: k.packer.pack([]byte("data")), version: "5", sequence: 7, partition: 2, state: k.packer.pack([]byte("state")), seen: "6"})
	row := checkpoint.Row{UID: "u1", ResourceVersion: "6", Sequence: 7, Partition: 2}
	for name, c := range map[string]struct {
		edit          func(*checkpoint.Row)
		logged, state bool
	}{
		"it is":              {func(*checkpoint.Row) {}, true, true},
		"another object":     {func(r *checkpoint.Row) { r.UID = "u2" }, false, false},
		"another history":    {func(r *checkpoint.Row) { r.Superseded = true }, false, false},
		"it was deleted":     {func(r *checkpoint.Row) { r.Deleted = true }, false, false},
		"a later event":      {func(r *checkpoint.Row) { r.Sequence = 8 }, false, true},
		"another partition":  {func(r *checkpoint.Row) { r.Partition = 1 }, false, true},
		"a later state":      {func(r *checkpoint.Row) { r.ResourceVersion = "7" }, true, false},
		"of another process": {func(r *checkpoint.Row) { r.Fresh = !r.Fresh }, true, true},
	} {
		at := row
		c.edit(&at)
		logged, state := k.logged("a", at, nil), k.before("a", at, nil)
		if string(logged.Data) != map[bool]string{true: "data"}[c.logged] || (logged.ResourceVersion == "5") != c.logged ||
			string(state) != map[bool]string{true: "state"}[c.state] {
			t.Errorf("%s: %q of %s, and %q", name, logged.Data, logged.ResourceVersion, state)
		}
	}
	if k.logged("b", checkpoint.Row{}, nil).Data != nil || k.before("b", checkpoint.Row{}, nil) != nil {
		t.Error("something is known of what was never put")
	}
}

func TestOlds_count_what_they_hold(t *testing.T) {
	k := newOlds(&StreamSpec{Olds: true}, newPacker)
	for i := range 100 {
		k.put("a", old{state: make([]byte, i)})
		k.put("b", old{data: make([]byte, i)})
	}
	if objects, bytes := k.total(); objects != 2 || bytes != 2*(99+1+oldOverhead) {
		t.Errorf("%d objects, %d bytes", objects, bytes)
	}
	k.drop("a")
	k.drop("b")
	k.drop("c")
	if objects, bytes := k.total(); objects != 0 || bytes != 0 {
		t.Errorf("%d objects, %d bytes", objects, bytes)
	}
}
