// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// step is one write to the API server, and a note of it.
type step func(ctx context.Context) error

type object = map[string]any

const (
	namespace = "default"
	manager   = "demo" // who the events say did it
)

var kinds = map[string]string{
	"configmaps": "ConfigMap", "secrets": "Secret", "deployments": "Deployment",
	"widgets": "Widget", "namespaces": "Namespace",
}

func (p *play) create(gvr schema.GroupVersionResource, name string, fields object) step {
	return func(ctx context.Context) error {
		p.screen.doing("create %s %s", kinds[gvr.Resource], name)
		o := newObject(gvr, name, fields)
		return p.note(p.client.Resource(gvr).Namespace(namespace).Create(ctx, o, metav1.CreateOptions{FieldManager: manager}))
	}
}

func newObject(gvr schema.GroupVersionResource, name string, fields object) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: object{
		"apiVersion": gvr.GroupVersion().String(), "kind": kinds[gvr.Resource], "metadata": object{"name": name},
	}}
	maps.Copy(o.Object, fields)
	return o
}

func (p *play) patch(gvr schema.GroupVersionResource, name string, with object) step {
	return func(ctx context.Context) error {
		data, err := json.Marshal(with)
		if err != nil {
			return fmt.Errorf("encode patch: %w", err)
		}
		p.screen.doing("patch %s %s %s", kinds[gvr.Resource], name, data)
		return p.note(p.client.Resource(gvr).Namespace(namespace).Patch(ctx, name, types.MergePatchType, data,
			metav1.PatchOptions{FieldManager: manager}))
	}
}

func (p *play) delete(gvr schema.GroupVersionResource, name string) step {
	return func(ctx context.Context) error {
		p.screen.doing("delete %s %s", kinds[gvr.Resource], name)
		objects := p.client.Resource(gvr).Namespace(namespace)
		o, err := objects.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return fmt.Errorf("change the cluster: %w", err)
		}
		if err := objects.Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
			return fmt.Errorf("change the cluster: %w", err)
		}
		p.changes = append(p.changes, change{tells: end(string(o.GetUID())), deletion: true, answered: time.Now()})
		return nil
	}
}

// note keeps what the API server answered to a write.
func (p *play) note(o *unstructured.Unstructured, err error) error {
	if err != nil {
		return fmt.Errorf("change the cluster: %w", err)
	}
	p.changes = append(p.changes, change{tells: state(string(o.GetUID()), o.GetResourceVersion()), answered: time.Now()})
	return nil
}

// define creates the definition of widgets and waits until they can be created.
func (p *play) define(ctx context.Context) error {
	p.screen.doing("create CustomResourceDefinition widgets.demo.example.com")
	_, err := p.client.Resource(definitions).Create(ctx, &unstructured.Unstructured{Object: object{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": object{"name": "widgets.demo.example.com"},
		"spec": object{
			"group": widgets.Group, "scope": "Namespaced",
			"names": object{"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
			"versions": []any{object{
				"name": "v1", "served": true, "storage": true,
				"schema": object{"openAPIV3Schema": object{"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
			}},
		},
	}}, metav1.CreateOptions{FieldManager: manager})
	if err != nil {
		return fmt.Errorf("define widgets: %w", err)
	}
	return until(ctx, 30*time.Second, "the API server to serve widgets", func(ctx context.Context) (bool, error) {
		_, err := p.client.Resource(widgets).Namespace(namespace).List(ctx, metav1.ListOptions{})
		if apierrors.IsNotFound(err) {
			return false, nil // not yet
		}
		return err == nil, err
	})
}

// web is a Deployment of an image.
func web(image string) object {
	labels := object{"app": "web"}
	return object{"spec": object{
		"replicas": 1,
		"selector": object{"matchLabels": labels},
		"template": object{
			"metadata": object{"labels": labels},
			"spec":     object{"containers": []any{object{"name": "web", "image": image}}},
		},
	}}
}
