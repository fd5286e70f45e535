// SPDX-License-Identifier: Apache-2.0

package tail

import (
	"errors"
	"flag"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/kube-eventbridge/kube-eventbridge/internal/event"
	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
)

var update = flag.Bool("update", false, "write the golden files again")

// story is a log with every kind of event in it.
func story(t *testing.T) []*event.Event {
	scale := `{"metadata":{"creationTimestamp":"2026-11-19T10:00:00Z"},"spec":{"replicas":%d}}`
	one, three := strings.Replace(scale, "%d", "1", 1), strings.Replace(scale, "%d", "3", 1)
	pod := map[string]string{
		"source": "/clusters/east/api/v1/pods", "kind": "Pod", "subject": "shop/web-7c9d8f6b5d-x2x4z",
		"name":      "web-7c9d8f6b5d-x2x4z",
		"objectuid": "5a0a8f6e-9b9b-4c39-8a3e-d3f6a5d0c111", "resourceversion": "1048577",
		"fieldmanager": "kube-controller-manager",
		"recordedtime": "2026-11-21T00:00:01.5Z",
	}
	gone := map[string]string{}
	maps.Copy(gone, pod)
	gone["reason"], gone["fieldmanager"] = "relist", ""
	return []*event.Event{
		change(t, event.SnapshotStarted, `{"namespace":"","resourceVersion":"7"}`, nil),
		change(t, event.Added, one, map[string]string{"reason": "snapshot"}),
		change(t, event.SnapshotCompleted, `{"namespace":"","resourceVersion":"7","objects":1}`, nil),
		change(t, event.Updated, three, map[string]string{"resourceversion": "12"}),
		change(t, event.Added,
			`{"metadata":{"creationTimestamp":"2026-11-21T00:00:01Z","ownerReferences":[{"kind":"ReplicaSet","name":"web-7c9d8f6b5d","controller":true}]}}`, pod),
		change(t, event.Gap, `{"namespace":"shop","labelSelector":"app=web","from":"12","to":"90","cause":"expired",`+
			`"message":"410 Gone: too old resource version","epoch":1795212000}`,
			map[string]string{"resourceversion": "90"}),
		change(t, event.Deleted, `{}`, gone),
		change(t, event.ResyncStarted, `{"namespace":"shop","n":1795213000}`, nil),
		change(t, event.ResyncCompleted, `{"namespace":"shop","n":1795213000,"objects":2,"complete":true}`, nil),
		change(t, event.Deleted, one, map[string]string{"reason": "deselected"}),
		change(t, event.Rejected,
			`{"type":"io.kube-eventbridge.resource.updated.v1","error":"maximum payload exceeded","size":1200000}`,
			map[string]string{"resourceversion": "91"}),
		change(t, event.Added, `{}`, map[string]string{
			"subject": "a b/\x1b[2J\nroot# ", "resourceversion": "\x1b]52;c;\a", "fieldmanager": "evil\u202e", "pipeline": "p\r",
			"source": "/clusters/east/apis/x\x07.com/v1/things", "objectuid": "\x9b31m", "reason": "watch\x1b",
		}),
	}
}

func TestTable_looks_as_in_the_golden_files(t *testing.T) {
	zone := time.FixedZone("CET", 3600)
	for name, cfg := range map[string]TableConfig{
		"table":  {Today: at},
		"wide":   {Wide: true, Location: zone, Today: at},
		"colour": {Colour: true, NoHeaders: true, Location: zone, Today: at.AddDate(0, 0, 1)},
	} {
		t.Run(name, func(t *testing.T) {
			var out strings.Builder
			table := NewTable(&out, cfg)
			seen := newMemory(1 << 20)
			for _, e := range story(t) {
				require.NoError(t, table.Print(e, func() *event.Event { return seen.last(e) }))
				seen.put(e)
			}
			golden(t, name+".txt", out.String())
			for line := range strings.Lines(out.String()) {
				line = strings.TrimSuffix(line, "\n")
				if cfg.Colour {
					for _, own := range []string{"\x1b[31m", "\x1b[32m", "\x1b[33m", "\x1b[36m", "\x1b[1;35m", reset} {
						line = strings.Replace(line, own, "", 1)
					}
				}
				assert.True(t, printable(line), "not printable: %q", line)
			}
		})
	}
}

func TestJSON_looks_as_in_the_golden_file(t *testing.T) {
	var out strings.Builder
	for _, e := range story(t) {
		require.NoError(t, (JSON{&out}).Print(e, nil))
	}
	golden(t, "events.json", out.String())
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		require.NoError(t, os.MkdirAll("testdata", 0o755))
		require.NoError(t, os.WriteFile(file, []byte(got), 0o644))
	}
	want := must.Get(os.ReadFile(file))(t)
	assert.Equal(t, string(want), got,
		"%s differs; go test -update writes it again\ngot:\n%s\nwant:\n%s", file, got, want)
}

type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("full") }

func TestPrinters_return_what_writing_fails_with(t *testing.T) {
	e := change(t, event.Added, `{}`, nil)
	for _, p := range []Printer{JSON{full{}}, NewTable(full{}, TableConfig{})} {
		err := p.Print(e, unknown)
		assert.True(t, err != nil && err.Error() == "print: full", "%T: got %v", p, err)
	}
}

func TestMemory_keeps_what_was_seen_last_within_its_bytes(t *testing.T) {
	a := change(t, event.Added, `{}`, map[string]string{"subject": "a"})
	b := change(t, event.Added, `{}`, map[string]string{"subject": "b"})
	c := change(t, event.Added, `{}`, map[string]string{"subject": "c"})
	m := newMemory(a.Size() + b.Size())
	m.put(a)
	m.put(b)
	m.put(a)
	m.put(c)
	if m.last(a) != a || m.last(b) != nil || m.last(c) != c {
		t.Errorf("kept a: %v, b: %v, c: %v; want a and c", m.last(a) != nil, m.last(b) != nil, m.last(c) != nil)
	}
	m.put(change(t, event.Added, strings.Repeat(" ", m.max)+`{}`, map[string]string{"subject": "large"}))
	assert.Equal(t, 0, m.size, "what is larger than the whole memory left %d bytes in it", m.size)
	assert.Empty(t, m.byKey, "what is larger than the whole memory left %d bytes in it", m.size)
}

func TestTable_prints_its_header_once_and_when_it_is_told(t *testing.T) {
	for _, none := range []bool{false, true} {
		var out strings.Builder
		table := NewTable(&out, TableConfig{Today: at, NoHeaders: none})
		require.NoError(t, table.Begin())
		if begun := strings.HasPrefix(out.String(), "TIME "); begun == none || strings.Count(out.String(), "\n") > 1 {
			t.Errorf("without headers %v: got %q", none, out.String())
		}
		require.NoError(t, table.Print(change(t, event.Added, `{}`, nil), unknown))
		n := strings.Count(out.String(), "TIME ")
		assert.True(t, n > 0 != none && n <= 1, "without headers %v: got %q", none, out.String())
	}
}

func TestTable_shows_the_place_that_a_log_names(t *testing.T) {
	var out strings.Builder
	e := change(t, event.Added, `{}`, nil)
	e.Place = "3/1041"
	require.NoError(t, NewTable(&out, TableConfig{Wide: true, NoHeaders: true}).Print(e, unknown))
	fields := strings.Fields(out.String())
	assert.True(t, len(fields) >= 2 && fields[1] == "3/1041", "got %s", out.String())
}

func TestPrintable_is_printable_and_leaves_printable_text_alone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := string(rapid.SliceOf(rapid.Byte()).Draw(t, "bytes"))
		switch got := Printable(s); {
		case !printable(got):
			t.Fatalf("%q became %q", s, got)
		case printable(s) && got != s:
			t.Fatalf("%q was changed to %q", s, got)
		}
	})
}
