// SPDX-License-Identifier: Apache-2.0

package rawjson

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
	"github.com/kube-eventbridge/kube-eventbridge/source/rawjson/rawjsontest"
)

// frames reads all frames, as "type object", and the error at the end.
func frames(r io.Reader) (out []string, err error) {
	return framesOf(NewReader(r))
}

func framesOf(fr *Reader) (out []string, err error) {
	for {
		f, err := fr.Next()
		if err != nil {
			return out, err
		}
		out = append(out, fmt.Sprintf("%d %s", f.Type, f.Object))
	}
}

func sameFrames(t *testing.T, what string, got []string, gotErr error, want []string, wantErr error) {
	t.Helper()
	require.True(t, errors.Is(gotErr, wantErr) || gotErr.Error() == wantErr.Error(),
		"%s: ended with %v, want %v", what, gotErr, wantErr)
	require.Len(t, got, len(want), "%s: got %d frames, want %d %.300q", what, len(got), len(want), want)
	for i := range got {
		require.Equal(t, want[i], got[i], "%s: frame %d", what, i)
	}
}

func TestFrameReader_reads_frames_however_they_are_written(t *testing.T) {
	for name, tc := range map[string]struct {
		body string
		want []string
	}{
		"nothing":         {"", nil},
		"only whitespace": {"\n \r\n\t", nil},
		"as API servers do": {
			`{"type":"ADDED","object":{"a":1}}` + "\n" + `{"type":"DELETED","object":{}}` + "\n",
			[]string{`1 {"a":1}`, `3 {}`},
		},
		"all types": {`{"type":"ADDED","object":{}}` + "\n" + `{"type":"MODIFIED","object":{}}` + "\n" +
			`{"type":"DELETED","object":{}}` + "\n" + `{"type":"BOOKMARK","object":{}}` + "\n" + `{"type":"ERROR","object":{}}` +
			"\n", []string{"1 {}", "2 {}", "3 {}", "4 {}", "5 {}"}},
		"empty lines": {"\n\n" + `{"type":"ADDED","object":{}}` + "\n\r\n \n" + `{"type":"ADDED","object":{}}` +
			"\n\n", []string{"1 {}", "1 {}"}},
		"carriage returns": {
			`{"type":"ADDED","object":{}}` + "\r\n" + `{"type":"ADDED","object":{}}` + "\r\n",
			[]string{"1 {}", "1 {}"},
		},
		"no newline at the end": {
			`{"type":"ADDED","object":{}}` + "\n" + `{"type":"ADDED","object":{"b":[]}}`,
			[]string{"1 {}", `1 {"b":[]}`},
		},
		"no newlines": {
			`{"type":"ADDED","object":{"a":"}{"}}{"type":"ADDED","object":{"b":[]}}`,
			[]string{`1 {"a":"}{"}`, `1 {"b":[]}`},
		},
		"other order":   {`{"object":{"a":"\"type\":"},"type":"ADDED"}` + "\n", []string{`1 {"a":"\"type\":"}`}},
		"other members": {`{"type":"ADDED","x":[{}],"object":{"a":1},"y":null}` + "\n", []string{`1 {"a":1}`}},
		"spaces": {
			`{ "type" : "ADDED" , "object" : {"a": 1 } } ` + "\n" + ` {"type":"ADDED", "object":{}}`,
			[]string{`1 {"a": 1 }`, "1 {}"},
		},
		"pretty-printed": {"{\n  \"type\": \"ADDED\",\n  \"object\": {\n    \"a\": {}\n  " +
			"}\n}\n{\n\"type\":\"ADDED\",\"object\":{}}", []string{"1 {\n    \"a\": {}\n  }", "1 {}"}},
		"pretty-printed object": {"{\"type\":\"ADDED\",\"object\":{\n  \"a\": {}\n}}\n", []string{"1 {\n  \"a\": {}\n}"}},
		"escapes":               {`{"typ\u0065":"ADDE\u0044","object":{"a":"\\"}}` + "\n", []string{`1 {"a":"\\"}`}},
		"the last of equals": {
			`{"type":"ADDED","type":"DELETED","object":{},"object":{"a":1}}` + "\n",
			[]string{`3 {"a":1}`},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := frames(strings.NewReader(tc.body))
			sameFrames(t, "in one read", got, err, tc.want, io.EOF)
			for i := range len(tc.body) + 1 {
				got, err := frames(io.MultiReader(strings.NewReader(tc.body[:i]), strings.NewReader(tc.body[i:])))
				sameFrames(t, fmt.Sprint("split at ", i), got, err, tc.want, io.EOF)
			}
			got, err = frames(iotest.OneByteReader(strings.NewReader(tc.body)))
			sameFrames(t, "byte by byte", got, err, tc.want, io.EOF)
			got, err = frames(iotest.DataErrReader(strings.NewReader(tc.body)))
			sameFrames(t, "with the end in the last read", got, err, tc.want, io.EOF)
		})
	}
}

func TestFrameReader_refuses(t *testing.T) {
	for body, want := range map[string]string{
		`null`:                           "malformed watch frame",
		`<html>`:                         "malformed watch frame",
		`]`:                              "malformed watch frame",
		`{}`:                             "malformed watch frame",
		`{"type":"ADDED"}`:               "malformed watch frame",
		`{"type":"ADDED","object":null}`: "malformed watch frame",
		`{"type":"ADDED","object":[]}`:   "malformed watch frame",
		`{"type":"ADDED","object":{]}`:   "malformed watch frame",
		`{"type":1,"object":{}}`:         "malformed watch frame",
		`{"type":"ADDED" "object":{}}`:   "malformed watch frame",
		`{"object":{}}`:                  `watch frame of unknown type ""`,
		`{"type":"added","object":{}}`:   `watch frame of unknown type "added"`,
		`{"type":"","object":{}}`:        `watch frame of unknown type ""`,
		`{"type":"A\nB","object":{}}`:    `watch frame of unknown type "A\nB"`,
		`{"kind":"Status","code":500,"reason":1}`: "malformed watch frame",
	} {
		good := `{"type":"ADDED","object":{}}` + "\n"
		fr := NewReader(strings.NewReader(good + body + "\n" + good))
		got, err := framesOf(fr)
		sameFrames(t, body, got, err, []string{"1 {}"}, errors.New(want))
		_, again := fr.Next()
		assert.True(t, again != nil && again.Error() == want, "%s: later calls return %v", body, again)
	}
}

func TestFrameReader_tells_a_cut_frame_from_an_end(t *testing.T) {
	lines := []string{
		`{"type":"ADDED","object":{"a":"}}"}}` + "\n",
		"{\"object\":\n{\"b\":{}},\"type\":\"DELETED\"}\n",
	}
	want := []string{`1 {"a":"}}"}`, `3 {"b":{}}`}
	body := strings.Join(lines, "")
	for n := range len(body) + 1 {
		// A frame is whole once its last bracket is there.
		whole, wantErr := 0, io.EOF
		for rest := body[:n]; rest != ""; whole++ {
			line := lines[whole]
			if len(rest) < len(line)-1 {
				wantErr = io.ErrUnexpectedEOF
				break
			}
			rest = rest[min(len(rest), len(line)):]
		}
		got, err := frames(strings.NewReader(body[:n]))
		sameFrames(t, fmt.Sprint("first bytes: ", n), got, err, want[:whole], wantErr)
	}
}

func TestFrameReader_passes_on_the_readers_error_after_the_frames_before_it(t *testing.T) {
	cause := errors.New("connection reset")
	for _, tail := range []string{"", "\n", `{"type":"ADDED","obj`, `{"type":"ADDED","object":{}}`, "{\n", `{"x":1`} {
		body := `{"type":"ADDED","object":{}}` + "\n" + tail
		fr := NewReader(iotest.DataErrReader(io.MultiReader(strings.NewReader(body), iotest.ErrReader(cause))))
		got, err := framesOf(fr)
		sameFrames(t, tail, got, err, []string{"1 {}"}, cause)
		assert.ErrorIs(t, must.Err(fr.Next()), cause, "later calls return")
	}
	assert.ErrorIs(t, must.Err(NewReader(idle{}).Next()), io.ErrNoProgress, "a reader that never reads anything")
}

type idle struct{}

func (idle) Read([]byte) (int, error) { return 0, nil }

func TestFrameReader_limits_the_size_of_a_frame(t *testing.T) {
	for name, pattern := range map[string]string{
		"line":     `{"type":"ADDED","object":{"a":"%s"}}`,
		"brackets": `{"object":{"a":"%s"},"type":"ADDED"}`,
	} {
		fits := fmt.Sprintf(pattern, strings.Repeat("x", 200<<10))
		for _, end := range []string{"\n", ""} {
			fr := NewReader(strings.NewReader(fits + end))
			fr.max = len(fits)
			if got, err := framesOf(fr); len(got) != 1 || !errors.Is(err, io.EOF) {
				t.Errorf("%s of the greatest size, ended by %q: %d frames, %v", name, end, len(got), err)
			}
			fr = NewReader(iotest.HalfReader(strings.NewReader(fits + end)))
			fr.max = len(fits) - 1
			if got, err := framesOf(fr); len(got) != 0 || err == nil ||
				!strings.Contains(err.Error(), "watch frame of more than") {
				t.Errorf("%s one byte longer, ended by %q: %d frames, %v", name, end, len(got), err)
			}
		}
	}
	fr := NewReader(endless(`{"type":"`))
	_, err := fr.Next()
	assert.True(t, err != nil && len(fr.buf) <= 4*maxFrame, "endless frame: %v, buffer of %d bytes", err, len(fr.buf))
}

// endless repeats itself.
type endless string

func (e endless) Read(b []byte) (n int, err error) {
	for n+len(e) <= len(b) {
		n += copy(b[n:], e)
	}
	return n, nil
}

// What follows is written by the encoder of the API server.

func TestFrameReader_takes_the_API_servers_frames_as_lines(t *testing.T) {
	var objects []runtime.Object
	for i, s := range rawjsontest.Hostile {
		pod := rawjsontest.Pod(i)
		pod.Annotations = map[string]string{"hostile": s, s: "x"}
		pod.Labels = map[string]string{s: s}
		pod.Spec.Containers[0].Args = []string{s, s + s}
		objects = append(objects, pod, rawjsontest.Sorted(t, pod))
	}
	objects = append(objects, &metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Code: 410,
		Message: `"}}`,
	})
	words := []string{"ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR"}
	var body bytes.Buffer
	var want []string
	for i, obj := range objects {
		n := i % len(words)
		line := rawjsontest.ServerFrame(t, words[n], obj)
		fr, ok := parseLine(line)
		require.True(t, ok, "not taken as one line: %s", line)
		require.Equal(t, 1, bytes.Count(line, []byte("\n")), "not taken as one line: %s", line)
		if object := rawjsontest.ServerObject(t, obj); !bytes.Equal(fr.Object, object) || fr.Type != Type(n+1) {
			t.Fatalf("got %d %s, want %s %s", fr.Type, fr.Object, words[n], object)
		}
		if slow, err := parseFrame(bytes.TrimSpace(line)); err != nil || slow.Type != fr.Type ||
			!bytes.Equal(slow.Object, fr.Object) {
			t.Fatalf("matching brackets gives another frame: %v %s, %v", slow.Type, slow.Object, err)
		}
		body.Write(line)
		want = append(want, fmt.Sprintf("%d %s", fr.Type, fr.Object))
	}
	got, err := frames(bytes.NewReader(body.Bytes()))
	sameFrames(t, "large reads", got, err, want, io.EOF)
	got, err = frames(iotest.HalfReader(bytes.NewReader(body.Bytes())))
	sameFrames(t, "half reads", got, err, want, io.EOF)
	got, err = frames(iotest.OneByteReader(bytes.NewReader(body.Bytes())))
	sameFrames(t, "byte by byte", got, err, want, io.EOF)
}

func TestFrameReader_reads_frames_of_any_size(t *testing.T) {
	var body bytes.Buffer
	var want []string
	for _, size := range []int{1, 40 << 10, 1, 70 << 10, 48 << 10, 63<<10 + 900, 1, 1 << 20, 1, 2, 3 << 20, 1} {
		pod := rawjsontest.Pod(size)
		pod.Annotations["large"] = strings.Repeat(`{"`, size/4)
		body.Write(rawjsontest.ServerFrame(t, "ADDED", pod))
		want = append(want, fmt.Sprintf("%d %s", Added, rawjsontest.ServerObject(t, pod)))
	}
	got, err := frames(bytes.NewReader(body.Bytes()))
	sameFrames(t, "large reads", got, err, want, io.EOF)
	got, err = frames(iotest.HalfReader(bytes.NewReader(body.Bytes())))
	sameFrames(t, "half reads", got, err, want, io.EOF)
}

func TestFrameReader_reads_much_at_a_time_and_allocates_nothing(t *testing.T) {
	body := bytes.Repeat(rawjsontest.ServerFrame(t, "MODIFIED", rawjsontest.Pod(1)), 1000)
	r := &rawjsontest.Tally{Reader: bytes.NewReader(body)}
	fr := NewReader(r)
	var err error
	n := testing.AllocsPerRun(900, func() { _, e := fr.Next(); err = errors.Join(err, e) })
	assert.Zero(t, n, "allocations a frame")
	assert.NoError(t, err)
	require.ErrorIs(t, must.Err(framesOf(fr)), io.EOF)
	assert.LessOrEqual(t, r.Reads, len(body)/bufferSize*5/4+2, "reads for %d bytes", len(body))
}

// chunked reads in pieces of the sizes that its bytes say.
type chunked struct {
	body, sizes []byte
	next        int
}

func (c *chunked) Read(b []byte) (int, error) {
	if len(c.body) == 0 {
		return 0, io.EOF
	}
	n := 1
	if len(c.sizes) > 0 {
		n += int(c.sizes[c.next%len(c.sizes)])
		c.next++
	}
	n = copy(b[:min(n, len(b))], c.body)
	c.body = c.body[n:]
	return n, nil
}

func FuzzFrame(f *testing.F) {
	f.Add(bytes.Repeat(rawjsontest.ServerFrame(f, "ADDED", rawjsontest.Pod(1)), 2), []byte{3, 200})
	f.Add([]byte("{\"type\":\"ADDED\",\"object\":{}}\n{ \"object\":{\"a\":[\"}\"]}, "+
		"\"type\":\"ERROR\"}{\"type\":\"ADDED\",\"object\":{}}"), []byte{0})
	f.Add([]byte("{\"type\":\"ADDED\",\"object\":{\n\"a\":{}}}\n\n{\"type\":\"ADDED\",\"obj"), []byte{})
	f.Fuzz(func(t *testing.T, body, sizes []byte) {
		want, wantErr := frames(bytes.NewReader(body))
		got, err := frames(&chunked{body: body, sizes: sizes})
		sameFrames(t, "in pieces", got, err, want, wantErr)
		if errors.Is(wantErr, io.EOF) {
			sameObjects(t, body, want)
		}
	})
}

// sameObjects compares with what encoding/json reads, for bodies that are one frame a line.
func sameObjects(t *testing.T, body []byte, got []string) {
	var want []string
	for line := range bytes.Lines(body) {
		if line = bytes.TrimSpace(line); len(line) == 0 {
			continue
		}
		// A map, because structs of encoding/json take "TYPE" for "type".
		var members map[string]json.RawMessage
		var word string
		if json.Unmarshal(line, &members) != nil || json.Unmarshal(members["type"], &word) != nil {
			return
		}
		want = append(want, fmt.Sprintf("%d %s", parseType([]byte(word)), members["object"]))
	}
	require.Len(t, want, len(got), "got %q, encoding/json", got)
	for i := range got {
		require.Equal(t, want[i], got[i], "frame %d, encoding/json", i)
	}
}
