// SPDX-License-Identifier: Apache-2.0

package write

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
)

// Manager is the field manager of all writes: who owns the fields, as managedFields of an object has it.
const Manager = "kube-eventbridge"

// Timeout is how long a request takes at most. The API server is told so and gives up by then, so a write whose process
// was killed takes effect within this time or never.
const Timeout = 30 * time.Second

// grace is how much longer than the API server the client waits: the answer says more than the client's own timeout.
const grace = 5 * time.Second

// Object names an object of the target.
type Object struct {
	Resource  schema.GroupVersionResource
	Namespace string // empty if the resource has none
	Name      string
}

// Target is an API server that objects are written to. It is safe for concurrent use.
//
// A method makes one request, unless its comment says otherwise. It does not repeat a request; [Answer.RetryAfter] says
// when the API server wants to be asked again. A body is one JSON object with apiVersion, kind and metadata, without
// managedFields. An error means that there is no answer: object or body are no such thing, or ctx ended. In the second
// case the write may have been done or not. A connection that fails is no error, but [Unavailable]. There is no limit
// of requests per second: the caller decides how many are under way.
//
// [Target.Create] and [Target.Apply] are server-side applies. If the API server answers one with an error that may mean
// that apply cannot carry the object, they make two more requests, which change nothing: the same as a dry run, and a
// dry run of [Target.Post] or [Target.Put]. Only if the first fails in the same way and the second succeeds, the answer
// is [Unappliable]. Errors of etcd and of webhooks can have the same structure, and a Put takes fields from others.
type Target struct{ client rest.Interface }

// New returns a target with the address and credentials of cfg. Limits on requests per second in cfg are not used.
func New(cfg *rest.Config) (*Target, error) {
	cfg = rest.CopyConfig(cfg)
	cfg.QPS, cfg.RateLimiter = -1, nil
	cfg.ContentType, cfg.AcceptContentTypes = runtime.ContentTypeJSON, runtime.ContentTypeJSON
	cfg.NegotiatedSerializer = serializer.NewCodecFactory(runtime.NewScheme()).WithoutConversion()
	cfg.WarningHandler, cfg.WarningHandlerWithContext = rest.NoWarnings{}, nil
	hc, err := rest.HTTPClientFor(cfg)
	if err != nil {
		return nil, fmt.Errorf("credentials for the API server: %w", err)
	}
	client, err := rest.UnversionedRESTClientForConfigAndClient(cfg, hc)
	if err != nil {
		return nil, fmt.Errorf("address of the API server: %w", err)
	}
	return &Target{client: client}, nil
}

// absent is the resourceVersion that a create by apply requires. The API server compares it only if there is an object,
// and no object has it, because etcd's first write is 2.
const absent = "1"

// Create makes an object by server-side apply if there is none of this name. If there is one the answer is [Exists],
// and nothing was changed.
func (t *Target) Create(ctx context.Context, o Object, body []byte) (Answer, error) {
	body, err := edit(body, map[string]string{"uid": "", "resourceVersion": absent})
	if err != nil {
		return Answer{}, err
	}
	a, maybe, err := t.apply(ctx, creating, o, body, false)
	if err != nil || !maybe {
		return a, err
	}
	whole, err := t.post(o, body)
	if err != nil {
		return Answer{}, err
	}
	return t.unappliable(ctx, creating, o, a, whole)
}

// Apply changes an object by server-side apply. Unless uid and resourceVersion are those of the object, the answer is
// [Stale]; so it is if there is no object. With force, fields that others own become ours. Without, the answer is
// [Conflict] if others own a field that the body has with another value.
func (t *Target) Apply(
	ctx context.Context, o Object, body []byte, uid types.UID, resourceVersion string, force bool,
) (Answer, error) {
	body, err := withPreconditions(body, uid, resourceVersion)
	if err != nil {
		return Answer{}, err
	}
	a, maybe, err := t.apply(ctx, applying, o, body, force)
	if err != nil || !maybe {
		return a, err
	}
	return t.unappliable(ctx, putting, o, a, t.put(o, body))
}

// ApplyStatus is [Target.Apply] for the subresource status: of body only the member status counts. The answer is [Gone]
// if there is no object, and [NoResource] if the kind has no such subresource. The API server answers both alike for
// kinds of a CustomResourceDefinition, so the object is read then.
func (t *Target) ApplyStatus(
	ctx context.Context, o Object, body []byte, uid types.UID, resourceVersion string, force bool,
) (Answer, error) {
	body, err := withPreconditions(body, uid, resourceVersion)
	if err != nil {
		return Answer{}, err
	}
	a, _, err := t.apply(ctx, applyingStatus, o, body, force)
	if err != nil || a.Outcome != Gone {
		return a, err
	}
	now, err := t.Get(ctx, o)
	if err != nil {
		return Answer{}, err
	}
	if now.Outcome == Done && now.UID == uid {
		a.Outcome = NoResource
	}
	return a, nil
}

// Post makes an object that [Target.Create] cannot carry ([Unappliable]). Fields that the kind does not have are
// dropped.
func (t *Target) Post(ctx context.Context, o Object, body []byte) (Answer, error) {
	r, err := t.post(o, body)
	if err != nil {
		return Answer{}, err
	}
	return t.answer(ctx, creating, o, r)
}

// Put replaces an object that [Target.Apply] cannot carry ([Unappliable]). What others have set is removed where body
// does not have it, and fields that the kind does not have are dropped. Preconditions are as for Apply, but without an
// object the answer is [Gone], or [Stale].
func (t *Target) Put(
	ctx context.Context, o Object, body []byte, uid types.UID, resourceVersion string,
) (Answer, error) {
	body, err := withPreconditions(body, uid, resourceVersion)
	if err != nil {
		return Answer{}, err
	}
	return t.answer(ctx, putting, o, t.put(o, body))
}

// TryCreate asks whether the API server would accept body as a new object. It changes nothing: it is a dry run, with a
// generated name in place of the object's own. If a change is [Invalid] and TryCreate is [Done], the change is one of
// an immutable field, and the object could be deleted and made again. Any other outcome means that this is not certain:
// a kind may bind names to its content, another object may have a node port or the last place of a quota, a webhook may
// refuse dry runs.
func (t *Target) TryCreate(ctx context.Context, o Object, body []byte) (Answer, error) {
	body, err := edit(body, map[string]string{"name": "", "generateName": Manager + "-"})
	if err != nil {
		return Answer{}, err
	}
	r, err := t.post(o, body)
	if err != nil {
		return Answer{}, err
	}
	return t.answer(ctx, creating, o, dry(r))
}

// Delete deletes an object that has this uid and, unless it is empty, this resourceVersion; otherwise the answer is
// [Stale], or [Gone] without an object. What the object owns is deleted after it. [Done] with an Object means that it
// is still there, because it has finalizers or time to end. Done without one means that it is gone.
func (t *Target) Delete(ctx context.Context, o Object, uid types.UID, resourceVersion string) (Answer, error) {
	if uid == "" {
		return Answer{}, errors.New("delete an object without its uid")
	}
	options := metav1.DeleteOptions{
		TypeMeta:          metav1.TypeMeta{APIVersion: "v1", Kind: "DeleteOptions"},
		Preconditions:     &metav1.Preconditions{UID: &uid},
		PropagationPolicy: new(metav1.DeletePropagationBackground),
	}
	if resourceVersion != "" {
		options.Preconditions.ResourceVersion = &resourceVersion
	}
	body, err := json.Marshal(options)
	if err != nil {
		return Answer{}, err
	}
	return t.answer(ctx, deleting, o, t.request(http.MethodDelete, o).Body(body))
}

// Get reads an object as it is now. The answer is [Gone] if there is none.
func (t *Target) Get(ctx context.Context, o Object) (Answer, error) {
	return t.answer(ctx, reading, o, t.request(http.MethodGet, o))
}

// apply makes a server-side apply. It reports whether the answer may mean that apply cannot carry the object.
func (t *Target) apply(ctx context.Context, m method, o Object, body []byte, force bool) (Answer, bool, error) {
	request := func() *rest.Request {
		r := t.request(http.MethodPatch, o).SetHeader("Content-Type", string(types.ApplyYAMLPatchType)).
			Param("fieldManager", Manager).Param("force", strconv.FormatBool(force)).Body(body)
		if m == applyingStatus {
			r.SubResource("status")
		}
		return r
	}
	first, err := t.do(ctx, o, request())
	if err != nil {
		return Answer{}, false, err
	}
	if m == applyingStatus || !first.unappliable() {
		return first.answer(m, o), false, nil
	}
	again, err := t.do(ctx, o, dry(request()))
	return first.answer(m, o), again.unappliable(), err
}

// unappliable returns what the answer to a failed apply is in the light of a dry run of another request, which carries
// the whole object. It may fail with a better reason.
func (t *Target) unappliable(ctx context.Context, m method, o Object, a Answer, whole *rest.Request) (Answer, error) {
	try, err := t.answer(ctx, m, o, dry(whole))
	switch {
	case err != nil:
		return Answer{}, err
	case try.Outcome == Done:
		a.Outcome = Unappliable
		return a, nil
	case try.Outcome == Failed:
		return a, nil
	default:
		return try, nil
	}
}

// post is a request that makes an object.
func (t *Target) post(o Object, body []byte) (*rest.Request, error) {
	body, err := edit(body, map[string]string{"uid": "", "resourceVersion": ""})
	return whole(t.collection(http.MethodPost, o), body), err
}

// put is a request that replaces an object.
func (t *Target) put(o Object, body []byte) *rest.Request {
	return whole(t.request(http.MethodPut, o), body)
}

func whole(r *rest.Request, body []byte) *rest.Request {
	return r.Param("fieldManager", Manager).Param("fieldValidation", metav1.FieldValidationIgnore).Body(body)
}

func dry(r *rest.Request) *rest.Request { return r.Param("dryRun", metav1.DryRunAll) }

func (t *Target) request(verb string, o Object) *rest.Request {
	return t.collection(verb, o).Name(o.Name)
}

func (t *Target) collection(verb string, o Object) *rest.Request {
	root := "/apis"
	if o.Resource.Group == "" {
		root = "/api"
	}
	return t.client.Verb(verb).AbsPath(root, o.Resource.Group, o.Resource.Version).
		NamespaceIfScoped(o.Namespace, o.Namespace != "").Resource(o.Resource.Resource).
		SetHeader("Content-Type", runtime.ContentTypeJSON).
		Param("timeout", Timeout.String()).MaxRetries(0)
}

// answer makes a request and says what its response means.
func (t *Target) answer(ctx context.Context, m method, o Object, r *rest.Request) (Answer, error) {
	response, err := t.do(ctx, o, r)
	if err != nil {
		return Answer{}, err
	}
	return response.answer(m, o), nil
}

// do makes a request. A response that did not come is no error, unless ctx has ended.
func (t *Target) do(ctx context.Context, o Object, r *rest.Request) (response, error) {
	if err := r.Error(); err != nil {
		return response{}, fmt.Errorf("request for %s: %w", o.Resource.Resource, err)
	}
	limited, cancel := context.WithTimeout(ctx, Timeout+grace)
	defer cancel()
	var code int
	result := r.Do(limited).StatusCode(&code)
	body, err := result.Raw()
	came := newResponse(code, body, err)
	if came.code == 0 && ctx.Err() != nil {
		return response{}, fmt.Errorf("request for %s: %w", o.Resource.Resource, context.Cause(ctx))
	}
	return came, nil
}

// withPreconditions puts uid and resourceVersion into an object's metadata.
func withPreconditions(body []byte, uid types.UID, resourceVersion string) ([]byte, error) {
	if uid == "" || resourceVersion == "" {
		return nil, errors.New("change an object without its uid and resourceVersion")
	}
	return edit(body, map[string]string{"uid": string(uid), "resourceVersion": resourceVersion})
}

// edit sets members of an object's metadata, and removes those that are to be empty. All other values stay as they are,
// but for white space.
func edit(body []byte, members map[string]string) ([]byte, error) {
	var object, metadata map[string]json.RawMessage
	if err := json.Unmarshal(body, &object); err != nil {
		return nil, fmt.Errorf("decode an object: %w", err)
	}
	if err := json.Unmarshal(object["metadata"], &metadata); err != nil || metadata == nil {
		return nil, errors.Join(errors.New("decode an object: it has no metadata"), err)
	}
	for name, value := range members {
		delete(metadata, name)
		if value != "" {
			quoted, _ := json.Marshal(value) // a string has no error
			metadata[name] = quoted
		}
	}
	var err error
	if object["metadata"], err = encode(metadata); err != nil {
		return nil, err
	}
	return encode(object)
}

func encode(members map[string]json.RawMessage) ([]byte, error) {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(members); err != nil {
		return nil, fmt.Errorf("encode an object: %w", err)
	}
	return out.Bytes(), nil
}
