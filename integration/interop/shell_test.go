// SPDX-License-Identifier: Apache-2.0

package interop

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kube-eventbridge/kube-eventbridge/integration/internal/rig"
	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
)

// printed is a record as a command prints it.
type printed struct {
	partition, offset string
	key, value        string
	null              bool // there is no value
	headers           map[string]string
}

func (p *printed) String() string {
	return fmt.Sprintf("%s/%s %s %v %t %.200s", p.partition, p.offset, p.key, p.headers, p.null, p.value)
}

// printing returns what a command should print.
func printing(r *rig.Message) *printed {
	p := &printed{
		partition: strconv.Itoa(int(r.Partition)), offset: strconv.FormatUint(r.Sequence, 10),
		key: r.Key, value: string(r.Data), null: r.Data == nil, headers: map[string]string{},
	}
	for name, values := range r.Header {
		p.headers[name] = values[0]
	}
	return p
}

// compare fails the test unless a command printed each record of a topic as it is, and those of each partition in
// order.
func (p *published) compare(t *testing.T, topic string, got []*printed) {
	t.Helper()
	records := must.Get(p.records(topic))(t)
	want, next := map[string][]*printed{}, map[string]int{}
	for i := range records {
		w := printing(&records[i])
		want[w.partition] = append(want[w.partition], w)
	}
	assert.Len(t, got, len(records), "records")
	for _, g := range got {
		n := next[g.partition]
		next[g.partition]++
		require.Less(t, n, len(want[g.partition]), "too much in partition %s: %v", g.partition, g)
		w := want[g.partition][n]
		require.True(t, g.offset == w.offset && g.key == w.key && g.value == w.value && g.null == w.null &&
			maps.Equal(g.headers, w.headers), "there is %v\nwant %v", g, w)
	}
}

func (p *published) kcat(t *testing.T, topic string) {
	program(t, "kcat", "install kcat (Debian: apt-get install kcat)")
	var stderr bytes.Buffer
	cmd := exec.CommandContext(t.Context(), "sh", "shell/kcat.sh", p.kafka.Addresses()[0], topic)
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	require.NoError(t, err, "%v\n%s", err, stderr.Bytes())
	var got []*printed
	for line := range bytes.Lines(out) {
		var r struct {
			Partition, Offset json.Number
			Headers           []string
			Key               string
			Payload           *string
		}
		require.NoError(t, json.Unmarshal(line, &r))
		g := &printed{
			partition: r.Partition.String(), offset: r.Offset.String(), key: r.Key, null: r.Payload == nil,
			headers: map[string]string{},
		}
		if r.Payload != nil {
			g.value = *r.Payload
		}
		for i := 0; i+1 < len(r.Headers); i += 2 {
			g.headers[r.Headers[i]] = r.Headers[i+1]
		}
		got = append(got, g)
	}
	p.compare(t, topic, got)
}

// consoleArgs returns the options of the page's command.
func consoleArgs(t *testing.T) []string {
	t.Helper()
	script := must.Get(os.ReadFile("shell/console-consumer.sh"))(t)
	_, command, found := strings.Cut(string(script), `--topic "$2" `)
	require.True(t, found, "the script has changed")
	return strings.Fields(strings.ReplaceAll(command, "\\\n", " "))
}

func (p *published) consoleConsumer(t *testing.T, topic string) {
	records := must.Get(p.records(topic))(t)
	out, err := p.kafka.ConsoleConsumer(t.Context(), topic,
		append(consoleArgs(t), "--max-messages", strconv.Itoa(len(records)))...)
	require.NoError(t, err)
	var got []*printed
	for line := range strings.Lines(string(out)) {
		fields := strings.SplitN(strings.TrimSuffix(line, "\n"), "\t", 5)
		require.Len(t, fields, 5, "a line has %d fields: %.300q", len(fields), line)
		g := &printed{
			partition: strings.TrimPrefix(fields[0], "Partition:"), offset: strings.TrimPrefix(fields[1], "Offset:"),
			key: fields[3], value: fields[4], headers: map[string]string{},
		}
		if g.null = g.value == "null"; g.null {
			g.value = ""
		}
		for _, h := range strings.Split(fields[2], ",") {
			if name, value, found := strings.Cut(h, ":"); found {
				g.headers[name] = value
			} else if h != "NO_HEADERS" {
				t.Errorf("a header is %q", h)
			}
		}
		got = append(got, g)
	}
	p.compare(t, topic, got)
}
