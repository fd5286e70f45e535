// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/kube-eventbridge/kube-eventbridge/integration/internal/try"
)

const replicaLabel = "kube-eventbridge.io/replica"

var resourceOf = map[string]schema.GroupVersionResource{
	"ConfigMap": configMaps, "Secret": secrets, "Deployment": deployments,
}

// in is where a site has objects of a resource.
func (s *site) in(gvr schema.GroupVersionResource) dynamic.ResourceInterface {
	if gvr == namespaces {
		return s.client.Resource(gvr)
	}
	return s.client.Resource(gvr).Namespace("shop")
}

func (s *site) create(ctx context.Context, gvr schema.GroupVersionResource, name string, fields object) error {
	o := newObject(gvr, name, fields)
	if _, err := s.in(gvr).Create(ctx, o, metav1.CreateOptions{FieldManager: manager}); err != nil {
		return fmt.Errorf("change %s: %w", s.name, err)
	}
	return nil
}

func (s *site) patch(ctx context.Context, gvr schema.GroupVersionResource, name string, with object) error {
	data, err := json.Marshal(with)
	if err != nil {
		return fmt.Errorf("encode patch: %w", err)
	}
	options := metav1.PatchOptions{FieldManager: manager}
	if _, err := s.in(gvr).Patch(ctx, name, types.MergePatchType, data, options); err != nil {
		return fmt.Errorf("change %s: %w", s.name, err)
	}
	return nil
}

func (s *site) delete(ctx context.Context, gvr schema.GroupVersionResource, name string) error {
	if err := s.in(gvr).Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
		return fmt.Errorf("change %s: %w", s.name, err)
	}
	return nil
}

// objects returns what the namespace has of the selected resources.
func (s *site) objects(ctx context.Context) (all []unstructured.Unstructured, err error) {
	for _, gvr := range []schema.GroupVersionResource{configMaps, deployments, secrets} {
		list, err := s.in(gvr).List(ctx, metav1.ListOptions{})
		if err != nil {
			return nil, fmt.Errorf("list %s of %s: %w", gvr.Resource, s.name, err)
		}
		all = append(all, list.Items...)
	}
	return all, nil
}

// contents returns the content of each object, by kind and name.
func (s *site) contents(ctx context.Context) (map[string]string, error) {
	all, err := s.objects(ctx)
	contents := make(map[string]string)
	for _, o := range all {
		text, err := json.Marshal([]any{o.Object["data"], o.Object["spec"]})
		if err != nil {
			return nil, fmt.Errorf("encode %s: %w", o.GetName(), err)
		}
		contents[o.GetKind()+" "+o.GetName()] = string(text)
	}
	return contents, err
}

// difference returns the objects that a site does not have as another one has them, and those that only it has.
func (f *failover) difference(ctx context.Context, from, to *site) (missing, more []string, err error) {
	want, err := from.contents(ctx)
	if err != nil {
		return nil, nil, err
	}
	have, err := to.contents(ctx)
	if err != nil {
		return nil, nil, err
	}
	for name, content := range want {
		if have[name] != content {
			missing = append(missing, name)
		}
	}
	for name := range have {
		if _, wanted := want[name]; !wanted {
			more = append(more, name)
		}
	}
	slices.Sort(more)
	return missing, more, nil
}

// equal waits until west has what east has, and no more.
func (f *failover) equal(ctx context.Context) error {
	return f.await(ctx, "west to equal east", func(ctx context.Context) (bool, error) {
		missing, more, err := f.difference(ctx, f.east, f.west)
		return len(missing)+len(more) == 0 && err == nil, err
	})
}

// await waits until a condition holds, or a process has ended.
func (f *failover) await(ctx context.Context, what string, holds func(context.Context) (bool, error)) error {
	return until(ctx, 45*time.Second, what, func(ctx context.Context) (bool, error) {
		for _, s := range []*site{f.east, f.west} {
			if s.process != nil && !s.process.Running() {
				return false, s.process.alive()
			}
		}
		return holds(ctx)
	})
}

// show prints what both sites have.
func (f *failover) show(ctx context.Context) {
	for _, s := range []*site{f.east, f.west} {
		words := make(map[string]bool)
		for _, o := range try.Get(s.objects(ctx)) {
			word := o.GetName()
			if colour, found, _ := unstructured.NestedString(o.Object, "data", "colour"); found {
				word += " (" + colour + ")"
			}
			if o.GetKind() == "Deployment" {
				word += " (" + imageOf(&o) + ")"
			}
			words[word] = true
		}
		f.screen.say("    %s %s has %s", f.screen.dim("│"), s.name, strings.Join(slices.Sorted(maps.Keys(words)), ", "))
	}
}

func imageOf(o *unstructured.Unstructured) string {
	containers, _, _ := unstructured.NestedSlice(o.Object, "spec", "template", "spec", "containers")
	first, _ := containers[0].(object)
	image, _ := first["image"].(string)
	return image[strings.LastIndex(image, "/")+1:]
}

// summary prints what was promised and whether it held, and returns whether all of it did.
func (f *failover) summary(ctx context.Context, took time.Duration) bool {
	f.screen.heading("What came of it")
	all := true
	check := func(holds bool, format string, args ...any) {
		all = all && holds
		mark := f.screen.green("✓")
		if !holds {
			mark = f.screen.red("✗")
		}
		f.screen.say("  %s %s", mark, fmt.Sprintf(format, args...))
	}
	missing, more, err := f.difference(ctx, f.east, f.west)
	objects, errObjects := f.west.objects(ctx)
	check(err == nil && errObjects == nil && len(missing)+len(more) == 0, "both clusters have the same %d objects",
		len(objects))
	colour := ""
	for _, o := range objects {
		if o.GetName() == "settings" {
			colour, _, _ = unstructured.NestedString(o.Object, "data", "colour")
		}
	}
	check(colour == "white", "the last change won: colour %s", colour)
	slices.Sort(f.lags)
	f.screen.say("\n  half of the changes were in west within %s of the API server's answers to their writes",
		round(f.lags[len(f.lags)/2]))
	f.screen.say("  everything took %s", round(took))
	if all {
		f.screen.say("  %s", f.screen.green(f.screen.bold("All of it holds.")))
	}
	return all
}
