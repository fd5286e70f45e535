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
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
)

func TestUpload_puts_the_index_into_a_registry(t *testing.T) {
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	defer server.Close()
	index := must.Get(random.Index(64, 1, 2))(t)
	to := strings.TrimPrefix(server.URL, "http://") + "/kube-eventbridge:v1"
	require.NoError(t, upload(t.Context(), index, to))
	ref := must.Get(containername.ParseReference(to))(t)
	got := must.Get(remote.Head(ref, remote.WithContext(t.Context())))(t)
	assert.Equal(t, must.Get(index.Digest())(t), got.Digest, "the registry")
	assert.Error(t, upload(t.Context(), index, "Not A Name"), "a name that is none is taken")
}
