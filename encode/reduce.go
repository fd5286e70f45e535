// SPDX-License-Identifier: Apache-2.0

package encode

import (
	"github.com/kube-eventbridge/kube-eventbridge/sink"
	"github.com/kube-eventbridge/kube-eventbridge/source"
)

// Data returns the data of the event of c, without the envelope of structured mode; where the payload is made from what
// the log had before, that of the payload Object. The error is that of Change.
func (e *Encoder) Data(c *source.Change) ([]byte, error) {
	bare := *e
	bare.cfg.Mode = Binary
	if bare.cfg.Payload.FromOld() {
		bare.cfg.Payload, bare.payload = Object, Object
	}
	var m sink.Message
	if err := bare.Change(&m, c); err != nil {
		return nil, err
	}
	return m.Data, nil
}

// Reduced fills m with the event of c, under the same id and with the same type, whose data is the object's
// apiVersion, kind and metadata alone, whatever the configured payload is. Size is that of the whole data in bytes.
// Ref is where the whole data is, if not empty; then the event is a redacted one if that data is. The error is that of
// Change.
func (e *Encoder) Reduced(m *sink.Message, c *source.Change, size int, ref string) error {
	small := e.with(Metadata)
	if e.knative != nil {
		k := *e.knative
		k.change, _ = small.heads(e.cfg.Host)
		small.knative = &k
	}
	small.extra.add("datasize", int32s(size))
	small.extra.add("dataref", ref)
	elsewhere := false
	if ref != "" {
		var v view
		if err := e.look(&v, c); err != nil {
			return err
		}
		elsewhere = v.redacted
	}
	return small.write(m, c, elsewhere)
}
