// SPDX-License-Identifier: Apache-2.0

package replicas

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/kube-eventbridge/kube-eventbridge/integration/controlplane"
)

// history has what became of the target's objects, as etcd tells it: the audit log lacks the end of what an API server
// did that was killed.
type history struct {
	direction
	of *controlplane.ControlPlane

	mu      sync.Mutex // guards what follows
	eras    []time.Time
	changes []change
	seen    int64
	failed  error

	client *clientv3.Client
	ctx    context.Context
	cancel context.CancelFunc
	work   sync.WaitGroup
}

// change is one of an object of the target.
type change struct {
	// era counts how often etcd was restored before.
	era int
	rev int64
	// key is the object's in the source.
	key           key
	before, after *object
	// by is who made it, as far as the audit log tells, with the request.
	by      string
	request *request
}

// object is a version of an object of the target.
type object struct {
	Metadata struct {
		UID                 string
		Labels, Annotations map[string]string
		DeletionTimestamp   *string
	}
	raw string
}

func newHistory(d direction, of *controlplane.ControlPlane) *history {
	return &history{direction: d, of: of, eras: []time.Time{time.Now()}}
}

// restored says that etcd is put back now. Nothing follows it then.
func (h *history) restored() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.eras, h.seen = append(h.eras, time.Now()), 0
}

// begin follows etcd from a revision on; 0 is the next one. It is called again when etcd was restored.
func (h *history) begin(ctx context.Context, rev int64) (err error) {
	if rev == 0 {
		if rev, err = h.of.Revision(ctx); err != nil {
			return err
		}
		rev++
	}
	if h.client, err = h.of.EtcdClient(); err != nil {
		return err
	}
	h.ctx, h.cancel = context.WithCancel(context.WithoutCancel(ctx))
	h.work.Go(func() { h.follow(h.ctx, h.client, rev) })
	return nil
}

func (h *history) follow(ctx context.Context, client *clientv3.Client, rev int64) {
	for ctx.Err() == nil {
		options := []clientv3.OpOption{clientv3.WithPrefix(), clientv3.WithRev(rev), clientv3.WithPrevKV()}
		for res := range client.Watch(ctx, "/registry/", options...) {
			if res.CompactRevision != 0 {
				rev = res.CompactRevision + 1
				break
			}
			if res.Err() != nil {
				break
			}
			h.take(&res)
			rev = max(rev, res.Header.Revision+1)
		}
	}
}

func (h *history) take(res *clientv3.WatchResponse) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.seen = max(h.seen, res.Header.Revision)
	for _, e := range res.Events {
		k, ok := h.keyOf(string(e.Kv.Key))
		if !ok {
			continue
		}
		c := change{era: len(h.eras) - 1, rev: e.Kv.ModRevision, key: k}
		var err, worse error
		if e.PrevKv != nil {
			c.before, err = decode(e.PrevKv.Value)
		}
		if e.Type == clientv3.EventTypePut {
			c.after, worse = decode(e.Kv.Value)
		}
		h.failed = errors.Join(h.failed, err, worse)
		h.changes = append(h.changes, c)
	}
}

func decode(raw []byte) (*object, error) {
	o := &object{raw: string(raw)}
	if err := json.Unmarshal(raw, o); err != nil {
		return nil, fmt.Errorf("etcd has no JSON: %w", err)
	}
	return o, nil
}

// keyOf returns the key in the source of an object in etcd, if the replica may write it.
func (d *direction) keyOf(path string) (key, bool) {
	for _, r := range resources {
		prefix := "/registry/" + r.Resource + "/"
		if r.Group != "" {
			prefix = "/registry/" + r.Group + "/" + r.Resource + "/"
		}
		rest, ok := strings.CutPrefix(path, prefix)
		namespace, name, found := strings.Cut(rest, "/")
		if !ok || !found {
			continue
		}
		if from, selected := d.sourceNamespace(namespace); selected {
			return key{r, from, name}, true
		}
	}
	return key{}, false
}

func (d *direction) sourceNamespace(target string) (string, bool) {
	for from, to := range d.namespaces {
		if to == target {
			return from, true
		}
	}
	return "", false
}

// end stops following.
func (h *history) end() {
	if h.cancel != nil {
		h.cancel()
		h.work.Wait()
		_ = h.client.Close() // read only
		h.cancel = nil
	}
}

// complete waits until everything was read that etcd has.
func (h *history) complete(ctx context.Context) error {
	now, err := h.of.Revision(ctx)
	if err != nil {
		return err
	}
	return poll(ctx, 30*time.Second, "the history of etcd", func() bool {
		_ = h.client.RequestProgress(h.ctx) // it is asked again
		h.mu.Lock()
		defer h.mu.Unlock()
		return h.seen >= now
	})
}

// request is an entry of the audit log.
type request struct {
	Verb, RequestURI         string
	User                     struct{ Username string }
	UserAgent                string
	ObjectRef                struct{ Resource, Namespace, Name, APIGroup, Subresource string }
	RequestReceivedTimestamp time.Time
	StageTimestamp           time.Time
	ResponseStatus           struct {
		Code    int
		Details struct{ UID string }
	}
	RequestObject  json.RawMessage
	ResponseObject struct {
		Metadata struct{ UID, ResourceVersion string }
		Details  struct{ UID string }
	}
}

func (r *request) dryRun() bool { return strings.Contains(r.RequestURI, "dryRun=") }

// readAudit returns the requests that succeeded and may have changed something.
func readAudit(path string) (all []*request, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // read only
	for lines := bufio.NewReaderSize(f, 1<<20); ; {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return all, nil // a line without an end is of a server that was killed
		}
		if err != nil {
			return nil, err
		}
		r := &request{}
		if json.Unmarshal(line, r) != nil {
			continue // so is half a line
		}
		if r.ResponseStatus.Code/100 == 2 && !r.dryRun() {
			all = append(all, r)
		}
	}
}

// attributed returns all changes, with who has made them.
func (h *history) attributed(requests []*request) ([]change, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	byKey := make(map[key][]*request)
	for _, r := range requests {
		from, ok := h.sourceNamespace(r.ObjectRef.Namespace)
		for _, resource := range resources {
			if ok && resource.Resource == r.ObjectRef.Resource && resource.Group == r.ObjectRef.APIGroup {
				k := key{resource, from, r.ObjectRef.Name}
				byKey[k] = append(byKey[k], r)
			}
		}
	}
	changes := slices.Clone(h.changes)
	for i := range changes {
		c := &changes[i]
		for _, r := range byKey[c.key] {
			if h.era(r.RequestReceivedTimestamp) != c.era || !c.madeBy(r) ||
				c.request != nil && c.request.StageTimestamp.Before(r.StageTimestamp) {
				continue
			}
			c.request, c.by = r, r.User.Username
		}
	}
	return changes, h.failed
}

// era returns which era a time is in; the caller holds mu.
func (h *history) era(at time.Time) int {
	n := 0
	for i, began := range h.eras {
		if at.After(began) {
			n = i
		}
	}
	return n
}

// madeBy reports whether a request may have made the change.
func (c *change) madeBy(r *request) bool {
	if c.after == nil {
		uid := c.before.Metadata.UID
		return r.Verb == "delete" && (r.ResponseStatus.Details.UID == uid || r.ResponseObject.Details.UID == uid ||
			r.ResponseObject.Metadata.UID == uid)
	}
	return r.ResponseObject.Metadata.ResourceVersion == fmt.Sprint(c.rev)
}
