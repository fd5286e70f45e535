// SPDX-License-Identifier: Apache-2.0

package replicawrite

import (
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/kube-eventbridge/kube-eventbridge/integration/controlplane"
	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
	"github.com/kube-eventbridge/kube-eventbridge/internal/replica/write"
)

const (
	nobodys = "00000000-0000-0000-0000-000000000000"
	old     = "3" // a resourceVersion that no object of the test has
)

// situation is a call, and what its answer means.
type situation struct {
	title string
	call  call
	of    object
	want  write.Outcome
}

// check makes the calls, one after the other.
func (u *user) check(situations ...situation) {
	u.t.Helper()
	for _, s := range situations {
		u.t.Run(s.title, func(t *testing.T) {
			a := (&user{t: t, target: u.target, tape: u.tape}).do(s.call, s.of)
			assert.Equal(t, s.want, a.Outcome, "%d %s", a.Code, a.Message)
			if a.Outcome != write.Done {
				assert.NotEmpty(t, a.Message)
				u.record(s.title, s.call, s.of, s.want)
			}
		})
	}
}

func deployment(name, spec string) object {
	return manifest("deployments", `
apiVersion: apps/v1
kind: Deployment
metadata: {namespace: main, name: `+name+`}
spec:
  `+spec+`
  selector: {matchLabels: {app: one}}
  template:
    metadata: {labels: {app: one}}
    spec: {containers: [{name: main, image: none, env: [{name: FIRST}]}]}
`)
}

// duplicate has a name twice in a list of which that is the key.
func duplicate(o object) object {
	return o.with(`{"name":"FIRST"}`, `{"name":"FIRST"},{"name":"FIRST"}`)
}

const definition = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.demo.example.com}
spec:
  group: demo.example.com
  scope: Namespaced
  names: {plural: widgets, singular: widget, kind: Widget, listKind: WidgetList}
  versions:
    - name: v1
      served: true
      storage: true
      schema:
        openAPIV3Schema:
          type: object
          properties:
            spec:
              type: object
              properties:
                fixed: {type: string, x-kubernetes-validations: [{rule: self == oldSelf}]}
                closed: {type: string, x-kubernetes-validations: [{rule: self == oldSelf, reason: FieldValueForbidden}]}
                small: {type: integer, maximum: 5}
            status: {type: object, x-kubernetes-preserve-unknown-fields: true}
`

func widget(name string) object {
	return manifest("widgets", "{apiVersion: demo.example.com/v1, kind: Widget, metadata: {namespace: main, name: "+
		name+"}, spec: {fixed: one, closed: one, small: 1}}")
}

func TestAnswers_of_an_API_server(t *testing.T) {
	api := controlplane.ForTest(t, controlplane.Config{RBAC: true})
	var records []recording
	u := newUser(t, api.RESTConfig(), &records)
	u.made(namespace("main"))

	answersOfNames(u)
	answersOfVersions(u)
	answersOfFields(u)
	answersOfImmutableFields(u)
	answersOfDefinitions(u)
	answersOfAdmission(u)
	answersOfPolicies(u)
	answersOfWebhooks(u)
	answersOfSizes(u)
	answersOfDeletes(u)
	newUser(t, api.User("nobody"), &records).check(
		situation{"create without permission", create, configMap("main", "new"), write.Forbidden},
		situation{"delete without permission", remove, configMap("main", "new").of(nobodys), write.Forbidden},
		situation{"get without permission", get, configMap("main", "new"), write.Forbidden})
	cfg := rest.AnonymousClientConfig(api.RESTConfig())
	cfg.BearerToken = "unknown"
	newUser(t, cfg, &records).check(
		situation{"create with unknown credentials", create, configMap("main", "new"), write.Unavailable})
	require.NoError(t, api.KillAPIServer())
	a := u.do(create, configMap("main", "new"))
	assert.Equal(t, write.Unavailable, a.Outcome, a.Message)
	assert.Zero(t, a.Code)
	u.save()
}

func answersOfNames(u *user) {
	there := u.done(create, configMap("main", "there"))
	ending := u.made(namespace("ending"))
	u.done(remove, ending)
	finalized := u.made(configMap("main", "finalized").with(`"metadata":{`, `"metadata":{"finalizers":["example.com/f"],`))
	u.done(remove, finalized)
	unknown := configMap("main", "new")
	unknown.Resource.Resource = "unknowns"
	elsewhere := unknown
	elsewhere.Resource.Group = "unknown.example.com"
	u.check(
		situation{"create", create, configMap("main", "created"), write.Done},
		situation{"create what exists", create, there, write.Exists},
		situation{"create what exists otherwise", create, there.with(`"one"`, `"two"`), write.Exists},
		situation{"create what is being deleted", create, finalized, write.Exists},
		situation{"post", post, configMap("main", "posted"), write.Done},
		situation{"post what exists", post, there, write.Exists},
		situation{"create in no namespace", create, configMap("missing", "new"), write.NoNamespace},
		situation{"post in no namespace", post, configMap("missing", "new"), write.NoNamespace},
		situation{"create in a terminating namespace", create, configMap("ending", "new"), write.Terminating},
		situation{"create a namespace that is terminating", create, ending, write.Exists},
		situation{"create of an unknown resource", create, unknown, write.NoResource},
		situation{"create of an unknown group", create, elsewhere, write.NoResource},
		situation{"delete of an unknown resource", remove, unknown.of(nobodys), write.NoResource},
		situation{"get", get, there, write.Done},
		situation{"get what is absent", get, configMap("main", "absent"), write.Gone},
		situation{"get in no namespace", get, configMap("missing", "absent"), write.Gone},
		situation{"get a namespace that is absent", get, namespace("missing"), write.Gone},
		situation{"get of an unknown resource", get, unknown, write.NoResource})
	now := u.do(get, there)
	assert.Equal(u.t, there.resourceVersion, now.ResourceVersion, "a refused create has changed the object")
}

func answersOfVersions(u *user) {
	there := u.done(create, configMap("main", "versions"))
	changed := there.with(`"one"`, `"two"`)
	role := manifest("roles", "{apiVersion: rbac.authorization.k8s.io/v1, kind: Role, "+
		"metadata: {namespace: main, name: absent}, rules: []}").of(nobodys).at(old)
	u.check(
		situation{"apply at an old version", apply, changed.at(old), write.Stale},
		situation{"force at an old version", force, changed.at(old), write.Stale},
		situation{"put at an old version", put, changed.at(old), write.Stale},
		situation{"apply with another uid", apply, changed.of(nobodys), write.Stale},
		situation{"apply with another uid at an old version", apply, changed.of(nobodys).at(old), write.Stale},
		situation{"put with another uid", put, changed.of(nobodys), write.Stale},
		situation{"apply to what is absent", apply, changed.absent(), write.Stale},
		situation{"force to what is absent", force, changed.absent(), write.Stale},
		situation{"put to what is absent", put, changed.absent(), write.Gone},
		situation{"put to what a put could create", put, role, write.Stale},
		situation{"apply in no namespace", apply, configMap("missing", "x").of(there.uid).at(old), write.Stale},
		situation{"put in no namespace", put, configMap("missing", "x").of(there.uid).at(old), write.Gone},
		situation{"apply what is the same", apply, there, write.Done},
		situation{"apply", apply, changed, write.Done},
		situation{"apply again", apply, changed, write.Stale})
}

func answersOfFields(u *user) {
	const unknown = "unknownField: 1"
	double := u.made(duplicate(deployment("double", "")))
	skewed := u.made(deployment("skewed", unknown))
	u.check(
		situation{"create with a duplicate key", create, duplicate(deployment("new", "")), write.Unappliable},
		situation{"post with a duplicate key", post, duplicate(deployment("new", "")), write.Done},
		situation{"apply with a duplicate key", apply, double, write.Unappliable},
		situation{"put with a duplicate key", put, double, write.Done},
		situation{"create with an unknown field", create, deployment("other", unknown), write.Unappliable},
		situation{"apply with an unknown field", apply, skewed, write.Unappliable},
		situation{"put with an unknown field", put, skewed, write.Done},
		situation{
			"create with a field of another type", create, configMap("main", "new").with(`{"key":"one"}`, `[]`),
			write.Invalid,
		},
		situation{
			"post with a field of another type", post, configMap("main", "new").with(`{"key":"one"}`, `[]`),
			write.Invalid,
		},
		situation{"create with a bad name", create, configMap("main", "Bad"), write.Invalid},
		situation{"create with a bad value", create, deployment("bad", "").with(`"one"`, `"/"`), write.Invalid},
		situation{"create with another name in the body", create, object{
			Object: configMap("main", "this").Object, body: configMap("main", "that").body,
		}, write.Invalid},
		situation{
			"create with another kind in the body", create, configMap("main", "new").with("ConfigMap", "Secret"),
			write.Invalid,
		},
		situation{"try to create", tryCreate, configMap("main", "new"), write.Done},
		situation{"try to create a bad value", tryCreate, deployment("bad", "").with(`"one"`, `"/"`), write.Invalid})
	assert.Equal(u.t, write.Gone, u.do(get, configMap("main", "new")).Outcome, "a try has created an object")
}

// answersOfImmutableFields tests that a change of one is refused, in different shapes, and that a new object would do.
func answersOfImmutableFields(u *user) {
	for title, o := range map[string][2]object{
		"selector of a Deployment": changed(u, deployment("fixed", ""), `"one"`, `"two"`),
		"clusterIP of a Service": changed(u, manifest("services", "{apiVersion: v1, kind: Service, "+
			"metadata: {namespace: main, name: fixed}, spec: {clusterIP: 10.0.0.77, ports: [{port: 80}]}}"), ".77", ".78"),
		"immutable Secret": changed(u, manifest("secrets", "{apiVersion: v1, kind: Secret, "+
			"metadata: {namespace: main, name: fixed}, immutable: true, data: {key: b25l}}"), "b25l", "dHdv"),
		"type of a Secret": changed(u, manifest("secrets", "{apiVersion: v1, kind: Secret, "+
			"metadata: {namespace: main, name: typed}, type: example.com/one}"), "/one", "/two"),
		"immutable ConfigMap": changed(u, configMap("main", "fixed").with(`"data"`, `"immutable":true,"data"`),
			`"one"`, `"two"`),
		"spec of a PersistentVolumeClaim": changed(u, manifest("persistentvolumeclaims", "{apiVersion: v1, "+
			"kind: PersistentVolumeClaim, metadata: {namespace: main, name: fixed}, spec: {storageClassName: one, "+
			"accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}"), `"one"`, `"two"`),
		"template of a Job": changed(u, manifest("jobs", "{apiVersion: batch/v1, kind: Job, "+
			"metadata: {namespace: main, name: fixed}, spec: {template: {spec: {restartPolicy: Never, "+
			"containers: [{name: one, image: none}]}}}}"), `"one"`, `"two"`),
		"spec of a Pod": changed(u, pod("main", "fixed", "", ""), `"main"}]`, `"more"}]`),
		"spec of a StatefulSet": changed(u, manifest("statefulsets", "{apiVersion: apps/v1, kind: StatefulSet, "+
			"metadata: {namespace: main, name: fixed}, spec: {serviceName: one, selector: {matchLabels: {app: main}}, "+
			"template: {metadata: {labels: {app: main}}, spec: {containers: [{name: main, image: none}]}}}}"),
			`"one"`, `"two"`),
		"roleRef of a RoleBinding": changed(u, manifest("rolebindings", "{apiVersion: rbac.authorization.k8s.io/v1, "+
			"kind: RoleBinding, metadata: {namespace: main, name: fixed}, "+
			"roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: one}}"), `"one"`, `"two"`),
		"provisioner of a StorageClass": changed(u, manifest("storageclasses", "{apiVersion: storage.k8s.io/v1, "+
			"kind: StorageClass, metadata: {name: fixed}, provisioner: one}"), `"one"`, `"two"`),
	} {
		u.check(
			situation{"put another " + title, put, o[0], write.Invalid},
			situation{"apply another " + title, force, o[0], write.Invalid},
			situation{"try to create another " + title, tryCreate, o[1], write.Done})
	}
}

// changed makes an object, and returns it changed: with the preconditions, and without.
func changed(u *user, o object, old, new string) [2]object {
	u.t.Helper()
	return [2]object{u.made(o).with(old, new), o.with(old, new)}
}

func answersOfDefinitions(u *user) {
	crd := u.made(manifest("customresourcedefinitions", definition))
	a := u.do(create, widget("first"))
	if a.Outcome != write.Done { // the API server needs a moment
		assert.Equal(u.t, write.NoResource, a.Outcome, "a definition is new: %d %s", a.Code, a.Message)
		u.record("create of a new resource", create, widget("first"), write.NoResource)
	}
	must.Happen(u.t, "a new resource", func() bool {
		outcome := u.do(create, widget("first")).Outcome
		return outcome == write.Done || outcome == write.Exists
	})
	first := u.done(get, widget("first"))
	scaled := u.made(deployment("status", ""))
	withStatus := scaled.with(`"kind"`, `"status":{"replicas":3},"kind"`)
	u.check(
		situation{"put another fixed field", put, first.with(`"fixed":"one"`, `"fixed":"two"`), write.Invalid},
		situation{"put another closed field", put, first.with(`"closed":"one"`, `"closed":"two"`), write.Invalid},
		situation{"try to create another fixed field", tryCreate, first.with(`"fixed":"one"`, `"fixed":"two"`), write.Done},
		situation{"put a bad field", put, first.with(`:1`, `:9`), write.Invalid},
		situation{"try to create a bad field", tryCreate, first.with(`:1`, `:9`), write.Invalid},
		situation{"apply an unknown field of a definition", apply, first.with(`small`, `smaller`), write.Unappliable},
		situation{"apply status", applyStatus, withStatus, write.Done},
		situation{"apply status at an old version", applyStatus, withStatus.at(old), write.Stale},
		situation{"apply status to what is absent", applyStatus, withStatus.absent(), write.Gone},
		situation{"apply status of a definition without", applyStatus, first, write.NoResource},
		situation{
			"apply status of a kind without", applyStatus, u.done(create, configMap("main", "status")),
			write.NoResource,
		})
	u.done(remove, crd.at(""))
	var once sync.Once
	must.Happen(u.t, "the end of a resource", func() bool {
		a := u.do(create, widget("later"))
		if a.Outcome == write.Forbidden {
			once.Do(func() {
				u.record("create while a definition is deleted", create, widget("later"), write.Forbidden)
			})
		}
		return a.Outcome == write.NoResource
	})
}

func answersOfAdmission(u *user) {
	for _, name := range []string{"quota", "limits"} {
		u.made(namespace(name))
	}
	u.made(namespace("restricted").with(`"metadata":{`,
		`"metadata":{"labels":{"pod-security.kubernetes.io/enforce":"restricted"},`))
	quota := u.made(manifest("resourcequotas",
		"{apiVersion: v1, kind: ResourceQuota, metadata: {namespace: quota, name: q}, spec: {hard: {count/configmaps: 1}}}"))
	// There is no controller that would do this.
	u.done(applyStatus, quota.with(`"spec"`,
		`"status":{"hard":{"count/configmaps":"1"},"used":{"count/configmaps":"1"}},"spec"`))
	u.made(manifest("limitranges", "{apiVersion: v1, kind: LimitRange, metadata: {namespace: limits, name: most}, "+
		"spec: {limits: [{type: Container, max: {cpu: 100m}}]}}"))
	u.check(
		situation{"create beyond a quota", create, configMap("quota", "new"), write.Forbidden},
		situation{
			"create beyond a limit", create, pod("limits", "new", "", ", resources: {limits: {cpu: 1}}"),
			write.Forbidden,
		},
		situation{"create an insecure Pod", create, pod("restricted", "new", "", ""), write.Forbidden},
		situation{
			"create a Pod of no class", create, pod("main", "new", "priorityClassName: missing, ", ""),
			write.Forbidden,
		},
		situation{"delete a namespace of the system", remove, u.done(get, namespace("default")), write.Forbidden})
}

func answersOfPolicies(u *user) {
	for _, reason := range []string{"Invalid", "Forbidden", "RequestEntityTooLarge"} {
		name := "denies-" + strings.ToLower(reason)
		u.made(manifest("validatingadmissionpolicies", `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: `+name+`}
spec:
  matchConstraints:
    resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [configmaps]}]
  matchConditions: [{name: mine, expression: "object.metadata.name == '`+name+`'"}]
  validations: [{expression: "false", message: it may not be, reason: `+reason+`}]
`))
		u.made(manifest("validatingadmissionpolicybindings", `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: `+name+`}
spec: {policyName: `+name+`, validationActions: [Deny]}
`))
		o := configMap("main", name)
		must.Happen(u.t, "a policy", func() bool {
			a := u.do(create, o)
			if a.Outcome != write.Done {
				return true
			}
			u.done(remove, o.of(a.UID))
			return false
		})
		u.check(situation{"create what a policy denies as " + reason, create, o, write.Denied})
	}
}

func answersOfWebhooks(u *user) {
	hook := newWebhook(u.t, u)
	o := configMap("hooked", "new")
	for title, s := range map[string]struct {
		refusal *metav1.Status
		want    write.Outcome
	}{
		"without a status": {nil, write.Denied},
		"with 400":         {&metav1.Status{Code: 400, Reason: "BadRequest", Message: "no"}, write.Invalid},
		"with 403":         {&metav1.Status{Code: 403, Reason: "Forbidden", Message: "no"}, write.Denied},
		"with 403 alone":   {&metav1.Status{Code: 403, Message: "no"}, write.Denied},
		"with 404":         {&metav1.Status{Code: 404, Reason: "NotFound"}, write.Denied},
		"with 409":         {&metav1.Status{Code: 409, Reason: "Conflict"}, write.Denied},
		"with 422":         {&metav1.Status{Code: 422, Reason: "Invalid"}, write.Denied},
		"with 429":         {&metav1.Status{Code: 429}, write.Throttled},
		"with 500":         {&metav1.Status{Code: 500}, write.Failed},
	} {
		hook.refusal.Store(s.refusal)
		u.check(situation{"create what a webhook denies " + title, create, o, s.want})
	}
	hook.refusal.Store(&metav1.Status{Code: http.StatusInternalServerError})
	u.check(situation{"post what a webhook denies with 500", post, o, write.Failed})
	hook.server.Close()
	u.check(situation{"create while a webhook is away", create, o, write.Failed})
}

func answersOfSizes(u *user) {
	sized := func(kib int) object {
		return deployment("size-"+strconv.Itoa(kib), "").with(`"none"`, `"`+strings.Repeat("x", kib<<10)+`"`)
	}
	u.check(
		situation{
			"create what is too large for the kind", create,
			configMap("main", "new").with(`"one"`, `"`+strings.Repeat("x", 1<<20+1)+`"`), write.Invalid,
		},
		situation{"create what is too large for etcd", create, sized(1600), write.Failed},
		situation{"post what is too large for etcd", post, sized(1600), write.Failed},
		situation{"create what is too large for its client", create, sized(2500), write.Failed},
		situation{"create what is too large", create, sized(4000), write.TooLarge},
		situation{"post what is too large", post, sized(4000), write.TooLarge})
}

func answersOfDeletes(u *user) {
	finalized := u.made(configMap("main", "ending").with(`"metadata":{`, `"metadata":{"finalizers":["example.com/f"],`))
	plain := u.made(configMap("main", "plain"))
	u.check(
		situation{"delete with another uid", remove, plain.of(nobodys), write.Stale},
		situation{"delete at an old version", remove, plain.at(old), write.Stale},
		situation{"delete in no namespace", remove, configMap("missing", "new").of(nobodys), write.Gone})
	a := u.do(remove, finalized)
	assert.True(u.t, a.Outcome == write.Done && a.UID == finalized.uid && a.Object != nil, "with a finalizer: %+v", a)
	a = u.do(remove, finalized.at(a.ResourceVersion))
	assert.True(u.t, a.Outcome == write.Done && a.Object != nil, "with a finalizer, again: %+v", a)
	a = u.do(remove, plain)
	assert.True(u.t, a.Outcome == write.Done && a.Object == nil && a.UID == "", "without a finalizer: %+v", a)
	u.check(situation{"delete what is absent", remove, plain, write.Gone})
}
