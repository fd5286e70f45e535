// SPDX-License-Identifier: Apache-2.0

package source

import (
	"bytes"
	"io"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
	"github.com/kube-eventbridge/kube-eventbridge/source/rawjson"
	"github.com/kube-eventbridge/kube-eventbridge/source/rawjson/rawjsontest"
)

// loop reads the same bytes again and again.
type loop struct {
	body []byte
	at   int
}

func (l *loop) Read(b []byte) (n int, err error) {
	for n < len(b) {
		c := copy(b[n:], l.body[l.at:])
		n, l.at = n+c, (l.at+c)%len(l.body)
	}
	return n, nil
}

func orders(b *testing.B, run func(b *testing.B, pod runtime.Object)) {
	b.Run("typed", func(b *testing.B) { run(b, rawjsontest.Pod(1)) })
	b.Run("sorted", func(b *testing.B) { run(b, rawjsontest.Sorted(b, rawjsontest.Pod(1))) })
}

// BenchmarkWatch is everything between the connection and the queue: frame, identity, body.
func BenchmarkWatch(b *testing.B) {
	orders(b, func(b *testing.B, pod runtime.Object) {
		line := rawjsontest.ServerFrame(b, "MODIFIED", pod)
		fr := rawjson.NewReader(&loop{body: line})
		b.SetBytes(int64(len(line)))
		b.ReportAllocs()
		for b.Loop() {
			f := must.Get(fr.Next())(b)
			must.Get(ParseIdent(f.Object, true))(b)
			NewBody(f.Object).Release()
		}
	})
}

func BenchmarkFrame(b *testing.B) {
	line := rawjsontest.ServerFrame(b, "MODIFIED", rawjsontest.Pod(1))
	fr := rawjson.NewReader(&loop{body: line})
	b.SetBytes(int64(len(line)))
	b.ReportAllocs()
	for b.Loop() {
		must.Get(fr.Next())(b)
	}
}

func BenchmarkFrame_pretty_printed(b *testing.B) {
	line := bytes.Replace(rawjsontest.ServerFrame(b, "MODIFIED", rawjsontest.Pod(1)), []byte(`{"type":`),
		[]byte("{\n  \"type\": "), 1)
	fr := rawjson.NewReader(&loop{body: line})
	b.SetBytes(int64(len(line)))
	b.ReportAllocs()
	for b.Loop() {
		must.Get(fr.Next())(b)
	}
}

func BenchmarkParseObject(b *testing.B) {
	orders(b, func(b *testing.B, pod runtime.Object) {
		raw := rawjsontest.ServerObject(b, pod)
		b.ReportAllocs()
		for b.Loop() {
			must.Get(ParseIdent(raw, true))(b)
		}
	})
}

func BenchmarkNewBody(b *testing.B) {
	raw := rawjsontest.ServerObject(b, rawjsontest.Pod(1))
	b.ReportAllocs()
	for b.Loop() {
		NewBody(raw).Release()
	}
}

// BenchmarkList is everything between the connection and the queue, per object of a list of 100.
func BenchmarkList(b *testing.B) {
	const n = 100
	typed := &corev1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: "7"}}
	custom := &unstructured.UnstructuredList{Object: map[string]any{"metadata": map[string]any{"resourceVersion": "7"}}}
	for i := range n {
		pod := rawjsontest.Pod(i)
		custom.Items = append(custom.Items, *rawjsontest.Sorted(b, pod))
		pod.TypeMeta = metav1.TypeMeta{}
		typed.Items = append(typed.Items, *pod)
	}
	for name, list := range map[string]runtime.Object{"typed": typed, "sorted": custom} {
		b.Run(name, func(b *testing.B) {
			answer := rawjsontest.ServerObject(b, list)
			b.SetBytes(int64(len(answer)))
			b.ReportAllocs()
			for b.Loop() {
				must.Get(rawjson.ReadList(struct{ io.Reader }{bytes.NewReader(answer)}, pods.Kind, func(raw []byte) error {
					_, err := ParseIdent(raw, true)
					NewListBody(raw, pods).Release()
					return err
				}))(b)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/object")
		})
	}
}
