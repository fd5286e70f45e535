// SPDX-License-Identifier: Apache-2.0

// Package aggregated runs an API server of its own behind the kube-apiserver of a test, which proxies to it.
//
// The server has one namespaced resource, notes, in memory. Its versions count from 1 each time that it is installed.
// It can be away and come back with its data, and it can be installed again without them, at the same address.
package aggregated

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/kube-eventbridge/kube-eventbridge/integration/controlplane"
)

// version is the only one of the group.
const version = "v1"

var (
	services    = schema.GroupVersionResource{Version: "v1", Resource: "services"}
	apiServices = schema.GroupVersionResource{Group: "apiregistration.k8s.io", Version: "v1", Resource: "apiservices"}
)

// Server is an aggregated API server. Its methods must not be called concurrently.
type Server struct {
	group   string
	address string
	port    int
	kube    dynamic.Interface
	store   *store
	past    []History        // of the stores before
	serves  *httptest.Server // nil while the server is away
	cancel  context.CancelFunc
}

// New returns a server of a group, which kube-apiserver does not know yet, and which does not serve yet.
func New(group string, kube *rest.Config) (*Server, error) {
	port, err := controlplane.FreePort()
	if err != nil {
		return nil, err
	}
	client, err := dynamic.NewForConfig(kube)
	if err != nil {
		return nil, fmt.Errorf("aggregated API server: %w", err)
	}
	address := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	return &Server{group: group, address: address, port: port, kube: client, store: newStore(group)}, nil
}

// Resource is what the server has.
func (s *Server) Resource() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: s.group, Version: version, Resource: "notes"}
}

// Register has kube-apiserver proxy to the server.
func (s *Server) Register(ctx context.Context) error {
	service := manifest("v1", "Service", "notes-"+strconv.Itoa(s.port), map[string]any{
		"type": "ExternalName", "externalName": "localhost",
	})
	_, err := s.kube.Resource(services).Namespace("default").Create(ctx, service, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("register aggregated API server: %w", err)
	}
	registration := manifest("apiregistration.k8s.io/v1", "APIService", s.registration(), map[string]any{
		"group": s.group, "version": version, "groupPriorityMinimum": int64(1000), "versionPriority": int64(10),
		"insecureSkipTLSVerify": true,
		"service":               map[string]any{"namespace": "default", "name": service.GetName(), "port": int64(s.port)},
	})
	if _, err := s.kube.Resource(apiServices).Create(ctx, registration, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("register aggregated API server: %w", err)
	}
	return nil
}

// Unregister has kube-apiserver not know the group any more.
func (s *Server) Unregister(ctx context.Context) error {
	if err := s.kube.Resource(apiServices).Delete(ctx, s.registration(), metav1.DeleteOptions{}); err != nil {
		return fmt.Errorf("unregister aggregated API server: %w", err)
	}
	return nil
}

// Available reports whether kube-apiserver takes the server for available, and has it look again. By itself it looks
// every 30 seconds.
func (s *Server) Available(ctx context.Context) (bool, error) {
	look := fmt.Appendf(nil, `{"metadata":{"annotations":{"example.com/look":%q}}}`, time.Now().Format(time.RFC3339Nano))
	o, err := s.kube.Resource(apiServices).
		Patch(ctx, s.registration(), types.MergePatchType, look, metav1.PatchOptions{})
	if err != nil {
		return false, fmt.Errorf("read registration of aggregated API server: %w", err)
	}
	conditions, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
	for _, c := range conditions {
		if c, ok := c.(map[string]any); ok && c["type"] == "Available" && c["status"] == "True" {
			return true, nil
		}
	}
	return false, nil
}

// Start has the server serve what it has.
func (s *Server) Start() error {
	listener, err := net.Listen("tcp", s.address)
	if err != nil {
		return fmt.Errorf("start aggregated API server: %w", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	s.serves, s.cancel = &httptest.Server{Listener: listener, Config: &http.Server{
		Handler: s.store.handler(), ReadHeaderTimeout: time.Minute,
		BaseContext: func(net.Listener) context.Context { return ctx },
	}}, cancel
	s.serves.StartTLS()
	return nil
}

// Stop breaks off all connections. The server keeps its data. A server that is away stays so.
func (s *Server) Stop() {
	if s.serves != nil {
		s.serves.CloseClientConnections()
		s.cancel()
		s.serves.Close()
		s.serves = nil
	}
}

// Reinstall stops the server, which loses its data and counts versions from 1.
func (s *Server) Reinstall() {
	s.Stop()
	s.past, s.store = s.Histories(), newStore(s.group)
}

// Put makes a note, or changes its text. It needs no server that serves.
func (s *Server) Put(namespace, name, text string) { s.store.put(namespace, name, text) }

// Delete deletes a note.
func (s *Server) Delete(namespace, name string) { s.store.remove(namespace, name) }

// Forget has the server answer 410 for all versions before its newest one.
func (s *Server) Forget() { s.store.forget() }

// Histories returns what has happened, of each installation.
func (s *Server) Histories() []History {
	changes, _ := s.store.read()
	return append(s.past[:len(s.past):len(s.past)], History{first, after(changes), changes})
}

// registration is the name of the APIService.
func (s *Server) registration() string { return version + "." + s.group }

func manifest(apiVersion, kind, name string, spec map[string]any) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": apiVersion, "kind": kind, "metadata": map[string]any{"name": name}, "spec": spec,
	}}
}
