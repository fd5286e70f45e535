// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"bytes"
	"os"
	"testing"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
	"github.com/kube-eventbridge/kube-eventbridge/encode"
	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
	"github.com/kube-eventbridge/kube-eventbridge/sink"
	"github.com/kube-eventbridge/kube-eventbridge/source"
)

// BenchmarkEncodeFrom is all that an update of a Pod costs that is made from the one before: what the log has is decompressed, compared with the new state, and
// that is compressed in turn.
func BenchmarkEncodeFrom(b *testing.B) {
	raw := must.Get(os.ReadFile("../../encode/testdata/pod.json"))(b)
	before := bytes.ReplaceAll(raw, []byte(`"48211734"`), []byte(`"48211700"`))
	before = bytes.Replace(before, []byte(`"phase":"Running"`), []byte(`"phase":"Pending"`), 1)
	before = bytes.Replace(before, []byte(`"type":"Ready","status":"True"`), []byte(`"type":"Ready","status":"False"`), 1)
	for _, payload := range []encode.Payload{encode.Change, encode.MergePatch, encode.JSONPatch} {
		b.Run(string(payload), func(b *testing.B) {
			spec := &StreamSpec{Encoding: encode.Config{Cluster: "test", Pipeline: "test", Payload: payload}}
			at := source.Stream{Resource: source.Resource{Version: "v1", Resource: "pods", Kind: "Pod", Namespaced: true}}
			e := spec.encoder(at, 0)
			s := &stream{Stream: at, spec: spec, encoder: e, olds: newOlds(spec, newPacker)}
			o := &object{stream: s, key: "n/p"}
			o.attempt = attempt{message: &sink.Message{}, delta: delta{Change: source.Change{
				Op: source.Updated, Ident: source.Ident{Namespace: "n", Name: "p", UID: "u", ResourceVersion: "48211734"}, Body: source.NewBody(raw),
			}}}
			data := must.Get(e.Data(&source.Change{Op: source.Updated, Body: source.NewBody(before)}))(b)
			s.olds.put(o.key, old{uid: "u", data: s.olds.packer.pack(data), version: "48211700", sequence: 1})
			row := checkpoint.Row{UID: "u", ResourceVersion: "48211700", Sequence: 1}
			b.SetBytes(int64(len(raw)))
			b.ReportAllocs()
			for b.Loop() {
				if err := s.encodeFrom(o, row); err != nil || !o.attempt.based {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(len(o.attempt.data)), "kept-B")
		})
	}
}
