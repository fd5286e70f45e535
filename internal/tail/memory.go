// SPDX-License-Identifier: Apache-2.0

package tail

import (
	"container/list"

	"github.com/kube-eventbridge/kube-eventbridge/internal/event"
)

// memory keeps the last event of each object, with what those before it told, the least recently seen ones dropped
// first, within a number of bytes. It is not safe for concurrent use.
type memory struct {
	max, size int
	order     *list.List
	byKey     map[string]*list.Element
}

func newMemory(maxBytes int) *memory {
	return &memory{max: maxBytes, order: list.New(), byKey: make(map[string]*list.Element)}
}

// keyOfObject is the object's name within the log; pipelines may publish different parts of an object.
func keyOfObject(e *event.Event) string {
	return e.Attr("pipeline") + "\x00" + e.Source + "\x00" + e.Object
}

// last returns the event that was put last of e's object, nil for none.
func (m *memory) last(e *event.Event) *event.Event {
	found, ok := m.byKey[keyOfObject(e)]
	if !ok {
		return nil
	}
	return found.Value.(*event.Event)
}

// remember puts e, with what is known of the whole object.
func (m *memory) remember(e *event.Event) { m.put(event.Fold(e, m.last(e))) }

func (m *memory) put(e *event.Event) {
	key := keyOfObject(e)
	if old, ok := m.byKey[key]; ok {
		m.drop(old)
	}
	m.byKey[key] = m.order.PushFront(e)
	m.size += e.Size()
	for m.size > m.max {
		m.drop(m.order.Back())
	}
}

func (m *memory) drop(old *list.Element) {
	e := m.order.Remove(old).(*event.Event)
	delete(m.byKey, keyOfObject(e))
	m.size -= e.Size()
}

func (m *memory) clear() {
	*m = *newMemory(m.max)
}
