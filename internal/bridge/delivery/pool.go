// SPDX-License-Identifier: Apache-2.0

package delivery

import (
	"sync"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
	"github.com/kube-eventbridge/kube-eventbridge/sink"
)

// pool is memory that is used again: an object for each key with changes pending, a message for each that is
// unacknowledged.
type pool struct {
	objects, messages sync.Pool
	// settled is told the broker's word on an object's attempt.
	settled func(o *Object, r sink.Receipt, err error)
}

// of makes the pool that of a delivery.
func (m *pool) of(p *Deliverer) {
	m.settled = p.settled
	m.objects.New = func() any { return m.newObject() }
	m.messages.New = func() any { return &sink.Message{} }
}

func (m *pool) newObject() *Object {
	o := &Object{}
	o.done = func(r sink.Receipt, err error) { m.settled(o, r, err) }
	return o
}

// recycle gives an object back that no queue holds.
func (m *pool) recycle(o *Object) {
	if o.delayed {
		return
	}
	o.Stream, o.Key, o.Known = nil, "", checkpoint.Row{}
	m.objects.Put(o)
}
