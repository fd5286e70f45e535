// SPDX-License-Identifier: Apache-2.0

package main

import (
	"io"
	"log"
	"net/http/httptest"
	"strings"
	"testing"

	containername "github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

func TestUpload_puts_the_index_into_a_registry(t *testing.T) {
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	defer server.Close()
	index, err := random.Index(64, 1, 2)
	if err != nil {
		t.Fatal(err)
	}
	to := strings.TrimPrefix(server.URL, "http://") + "/kube-eventbridge:v1"
	if err := upload(t.Context(), index, to); err != nil {
		t.Fatal(err)
	}
	ref, err := containername.ParseReference(to)
	if err != nil {
		t.Fatal(err)
	}
	got, err := remote.Head(ref, remote.WithContext(t.Context()))
	if err != nil {
		t.Fatal(err)
	}
	if want, err := index.Digest(); err != nil || got.Digest != want {
		t.Errorf("the registry has %s, want %s, %v", got.Digest, want, err)
	}
	if err := upload(t.Context(), index, "Not A Name"); err == nil {
		t.Error("a name that is none is taken")
	}
}
