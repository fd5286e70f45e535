// SPDX-License-Identifier: Apache-2.0

package world

import (
	"bytes"
	"io"
	"regexp"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// CacheFilled is a moment at which the API server filled its watch cache of a resource from etcd. From then on it
// refuses watches from older versions. It does that when it starts, and again when its own watch of etcd has failed.
type CacheFilled struct {
	At       time.Time
	Resource schema.GroupResource
}

// cacheFlag has kube-apiserver print when it fills a watch cache.
const cacheFlag = "--vmodule=cacher=1"

var cacheLine = regexp.MustCompile(`"cacher initialized" group="([^"]*)" resource="([^"]*)"`)

// cacheLog passes on what etcd and kube-apiserver print, and notes when watch caches were filled.
type cacheLog struct {
	world *World
	to    io.Writer
	rest  []byte
}

// Write implements [io.Writer]. It is called from one goroutine at a time.
func (l *cacheLog) Write(p []byte) (int, error) {
	l.rest = append(l.rest, p...)
	end := bytes.LastIndexByte(l.rest, '\n') + 1
	for _, m := range cacheLine.FindAllSubmatch(l.rest[:end], -1) {
		l.world.cacheFilled(CacheFilled{time.Now(), schema.GroupResource{Group: string(m[1]), Resource: string(m[2])}})
	}
	l.rest = append(l.rest[:0], l.rest[end:]...)
	return l.to.Write(p)
}

func (w *World) cacheFilled(c CacheFilled) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.caches = append(w.caches, c)
}

// CachesFilled returns when the API server has filled watch caches so far, oldest first.
func (w *World) CachesFilled() []CacheFilled {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.caches)
}
