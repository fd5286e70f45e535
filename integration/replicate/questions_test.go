// SPDX-License-Identifier: Apache-2.0

package replicate

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/kube-eventbridge/kube-eventbridge/integration/controlplane"
	"github.com/kube-eventbridge/kube-eventbridge/internal/rbac"
)

// questions are what an API server asks its authorizers about a user: about each request, and about what it implies,
// such as that who writes a binding may bind the role.
type questions struct {
	user string

	mu    sync.Mutex
	asked map[rbac.Access]struct{}
}

// newQuestions returns the questions about a user, and the API server that asks them. It asks this test, which has no
// opinion, and then RBAC. As older ones it has no lists by watches, so that clients list.
func newQuestions(t *testing.T, user string) (*questions, controlplane.Config) {
	t.Helper()
	q := &questions{user: user}
	q.forget()
	server := httptest.NewServer(q)
	t.Cleanup(server.Close)
	path := filepath.Join(t.TempDir(), "authorizer")
	require.NoError(t, clientcmd.WriteToFile(clientcmdapi.Config{
		CurrentContext: "test",
		Clusters:       map[string]*clientcmdapi.Cluster{"test": {Server: server.URL}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{"test": {}},
		Contexts:       map[string]*clientcmdapi.Context{"test": {Cluster: "test", AuthInfo: "test"}},
	}, path))
	return q, controlplane.Config{APIServerArgs: []string{
		"--authorization-mode=Webhook,RBAC", "--authorization-webhook-version=v1",
		"--authorization-webhook-config-file=" + path, "--authorization-webhook-cache-unauthorized-ttl=0s",
		"--feature-gates=WatchList=false",
	}}
}

func (q *questions) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var review authorizationv1.SubjectAccessReview
	if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if a := review.Spec.ResourceAttributes; a != nil && review.Spec.User == q.user {
		q.mu.Lock()
		q.asked[rbac.Access{
			Group: a.Group, Resource: strings.TrimSuffix(a.Resource+"/"+a.Subresource, "/"), Namespace: a.Namespace,
			Name: a.Name, Verb: a.Verb,
		}] = struct{}{}
		q.mu.Unlock()
	}
	review.Status = authorizationv1.SubjectAccessReviewStatus{}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(review) // the API server asks again
}

// forget drops what was asked so far.
func (q *questions) forget() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.asked = make(map[rbac.Access]struct{})
}

// all returns what was asked.
func (q *questions) all() (all []rbac.Access) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for a := range q.asked {
		all = append(all, a)
	}
	return all
}
