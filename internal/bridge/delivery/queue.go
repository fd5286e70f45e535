// SPDX-License-Identifier: Apache-2.0

package delivery

import (
	"time"

	"k8s.io/client-go/util/workqueue"
)

// Queue has the objects with something to publish.
type Queue struct {
	main workqueue.TypedDelayingInterface[*Object]
	// aside has objects that the queue has given out, and that wait for more than the broker's acknowledgement.
	aside workqueue.TypedInterface[*Object]
}

func newQueue() Queue {
	return Queue{
		main:  workqueue.NewTypedDelayingQueueWithConfig(workqueue.TypedDelayingQueueConfig[*Object]{}),
		aside: workqueue.NewTyped[*Object](),
	}
}

// Add adds an object that has something to publish.
func (q *Queue) Add(o *Object) { q.main.Add(o) }

// Len returns how many objects wait for a worker.
func (q *Queue) Len() int { return q.main.Len() }

// ShutDown ends the workers.
func (q *Queue) ShutDown() {
	q.main.ShutDown()
	q.aside.ShutDown()
}

// again gives an object back with its attempt still under way.
func (q *Queue) again(o *Object, after time.Duration) {
	if after == 0 {
		q.main.Add(o)
	} else {
		o.delayed = true
		q.main.AddAfter(o, after)
	}
	q.main.Done(o)
}
