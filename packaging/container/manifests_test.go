package container

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"

	"github.com/lockkeeper/lockkeeper/config"
)

const manifests = "../kubernetes"

// A serviceMonitor and a prometheusRule are what the manifests use of the kinds of the
// Prometheus operator.
type serviceMonitor struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		Selector  metav1.LabelSelector `json:"selector"`
		Endpoints []struct {
			Port     string `json:"port"`
			Interval string `json:"interval"`
		} `json:"endpoints"`
	} `json:"spec"`
}

type prometheusRule struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              any `json:"spec"`
}

// A cluster is what kustomize makes of the example, each object decoded without a field that
// its kind does not have.
type cluster struct {
	accounts    []*corev1.ServiceAccount
	configs     []*corev1.ConfigMap
	cronJobs    []*batchv1.CronJob
	deployments []*appsv1.Deployment
	disruptions []*policyv1.PodDisruptionBudget
	monitors    []*serviceMonitor
	namespaces  []*corev1.Namespace
	policies    []*networkingv1.NetworkPolicy
	rules       []*prometheusRule
	secrets     []*corev1.Secret
	services    []*corev1.Service
}

func build(t *testing.T, dir string) *cluster {
	t.Helper()
	resources, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), filepath.Join(manifests, dir))
	require.NoError(t, err)
	var c cluster
	for _, r := range resources.Resources() {
		text, err := r.AsYAML()
		require.NoError(t, err)
		switch r.GetKind() {
		case "ConfigMap":
			decode(t, text, &c.configs)
		case "CronJob":
			decode(t, text, &c.cronJobs)
		case "Deployment":
			decode(t, text, &c.deployments)
		case "Namespace":
			decode(t, text, &c.namespaces)
		case "NetworkPolicy":
			decode(t, text, &c.policies)
		case "PodDisruptionBudget":
			decode(t, text, &c.disruptions)
		case "PrometheusRule":
			decode(t, text, &c.rules)
		case "Secret":
			decode(t, text, &c.secrets)
		case "Service":
			decode(t, text, &c.services)
		case "ServiceAccount":
			decode(t, text, &c.accounts)
		case "ServiceMonitor":
			decode(t, text, &c.monitors)
		default:
			require.Fail(t, "unknown kind", r.GetKind())
		}
	}
	return &c
}

func decode[T any](t *testing.T, text []byte, into *[]*T) {
	t.Helper()
	object := new(T)
	require.NoError(t, yaml.UnmarshalStrict(text, object), "%s", text)
	*into = append(*into, object)
}

// only is the only one of its kind.
func only[T any](t *testing.T, all []*T) *T {
	t.Helper()
	require.Len(t, all, 1)
	return all[0]
}

// daemonConfig reads the configuration as the pod has it: with its Secret.
func (c *cluster) daemonConfig(t *testing.T) *config.Config {
	t.Helper()
	d, secret := only(t, c.deployments), only(t, c.secrets)
	text := only(t, c.configs).Data["lockkeeper.yaml"]
	dir := t.TempDir()
	for key, value := range secret.Data {
		name := mountOf(t, &d.Spec.Template.Spec, func(v corev1.Volume) bool { return v.Secret != nil && v.Secret.SecretName == secret.Name }) + "/" + key
		require.Contains(t, text, name, "the configuration does not name the Secret's %s", key)
		require.NoError(t, os.WriteFile(filepath.Join(dir, key), value, 0o600))
		text = strings.ReplaceAll(text, name, filepath.Join(dir, key))
	}
	return valid(t, text)
}

// valid is a configuration of which lockkeeper config validate says nothing but that it is.
func valid(t *testing.T, text string) *config.Config {
	t.Helper()
	cfg, err := config.Parse("lockkeeper.yaml", []byte(text), config.Options{Env: func(string) (string, bool) { return "", false }})
	require.NoError(t, err)
	t.Cleanup(cfg.Close)
	require.Empty(t, cfg.Warnings)
	return cfg
}

// mountOf is where the container of a pod finds a volume.
func mountOf(t *testing.T, pod *corev1.PodSpec, is func(corev1.Volume) bool) string {
	t.Helper()
	i := slices.IndexFunc(pod.Volumes, is)
	require.NotEqual(t, -1, i, "the volume is missing")
	for _, m := range pod.Containers[0].VolumeMounts {
		if m.Name == pod.Volumes[i].Name {
			require.True(t, m.ReadOnly)
			require.Empty(t, m.SubPath, "a mounted file never changes, a directory does")
			return m.MountPath
		}
	}
	require.FailNow(t, "the volume is not mounted", pod.Volumes[i].Name)
	return ""
}

// drainOf is how long the daemon may take to stop.
func drainOf(cfg *config.Config) time.Duration {
	var cleanup time.Duration
	for _, job := range cfg.Jobs {
		for _, r := range job.Owned() {
			cleanup = max(cleanup, r.CleanupTimeout)
		}
	}
	return max(cfg.Drain.Finish, 0) + max(cfg.Drain.Cancel, 0) + cleanup + max(cfg.Drain.Release, 0)
}

func TestDaemonsPodHasTheTimeOfItsDrain(t *testing.T) {
	c := build(t, "example")
	d, drain := only(t, c.deployments), drainOf(c.daemonConfig(t))
	require.Equal(t, 130*time.Second, drain, "the comments say so")
	require.Greater(t, time.Duration(*d.Spec.Template.Spec.TerminationGracePeriodSeconds)*time.Second, drain)
}

func TestDaemonReadsTheFileAndListensWhereItIsAsked(t *testing.T) {
	c := build(t, "example")
	d, cfg := only(t, c.deployments), c.daemonConfig(t)
	pod := &d.Spec.Template.Spec
	container := pod.Containers[0]
	configs := only(t, c.configs)
	etc := mountOf(t, pod, func(v corev1.Volume) bool { return v.ConfigMap != nil && v.ConfigMap.Name == configs.Name })
	require.Equal(t, []string{"run", "-f", etc + "/lockkeeper.yaml"}, container.Args)
	require.Empty(t, container.Command, "the entrypoint of the image")

	port := only(t, ptrs(container.Ports))
	require.Equal(t, cfg.Metrics.Listen, fmt.Sprintf(":%d", port.ContainerPort))
	for path, probes := range map[string][]*corev1.Probe{"/healthz": {container.StartupProbe, container.LivenessProbe}, "/readyz": {container.ReadinessProbe}} {
		for _, probe := range probes {
			require.Equal(t, &corev1.HTTPGetAction{Path: path, Port: intstr.FromString(port.Name)}, probe.HTTPGet)
		}
	}
	service, monitor, policy := only(t, c.services), only(t, c.monitors), only(t, c.policies)
	require.Equal(t, intstr.FromString(port.Name), service.Spec.Ports[0].TargetPort)
	require.Equal(t, port.ContainerPort, service.Spec.Ports[0].Port)
	require.Equal(t, service.Spec.Ports[0].Name, monitor.Spec.Endpoints[0].Port)
	require.Equal(t, intstr.FromString(port.Name), *policy.Spec.Ingress[0].Ports[0].Port)
	require.True(t, strings.HasPrefix(cfg.Console.Listen, "127.0.0.1:"), "the policy lets no client in")
}

func TestSelectorsFindTheDaemonsPodsAlone(t *testing.T) {
	c := build(t, "example")
	d := only(t, c.deployments)
	labels := d.Spec.Template.Labels
	service, monitor := only(t, c.services), only(t, c.monitors)
	selectors := map[string]map[string]string{
		"deployment": d.Spec.Selector.MatchLabels,
		"service":    service.Spec.Selector,
		"budget":     only(t, c.disruptions).Spec.Selector.MatchLabels,
		"policy":     only(t, c.policies).Spec.PodSelector.MatchLabels,
	}
	for i, s := range d.Spec.Template.Spec.TopologySpreadConstraints {
		selectors[fmt.Sprint("spread ", i)] = s.LabelSelector.MatchLabels
	}
	require.Len(t, selectors, 6)
	for name, selector := range selectors {
		require.NotEmpty(t, selector, name)
		require.True(t, matches(selector, labels), name)
		require.False(t, matches(selector, only(t, c.cronJobs).Spec.JobTemplate.Spec.Template.Labels), name)
	}
	require.NotEmpty(t, monitor.Spec.Selector.MatchLabels)
	require.True(t, matches(monitor.Spec.Selector.MatchLabels, service.Labels))
	for _, e := range only(t, c.policies).Spec.Egress {
		for _, to := range e.To {
			require.Len(t, to.PodSelector.MatchLabels, 1, "labels of ours do not belong to the pods of others")
		}
	}
}

func matches(selector, labels map[string]string) bool {
	for key, value := range selector {
		if labels[key] != value {
			return false
		}
	}
	return true
}

// The policy lets daemons reach what their configuration names, and no other.
func TestPolicyOpensThePortsOfTheConfiguration(t *testing.T) {
	c := build(t, "example")
	var open []string
	for _, e := range only(t, c.policies).Spec.Egress {
		for _, port := range e.Ports {
			for _, to := range e.To {
				open = append(open, strings.Join(slices.Collect(maps.Values(to.PodSelector.MatchLabels)), " ")+":"+port.Port.String())
			}
		}
	}
	slices.Sort(open)
	require.Equal(t, []string{"kube-dns:53", "kube-dns:53", "orders:8080", "zookeeper:2181", "zookeeper:2281"}, open)
	cfg := c.daemonConfig(t)
	for _, server := range cfg.Client.Servers {
		require.True(t, strings.HasSuffix(server, ".zookeeper:2181"), server)
	}
	require.Contains(t, only(t, c.configs).Data["lockkeeper.yaml"], `"http://orders:8080/compact"`)
	require.Equal(t, []networkingv1.PolicyType{"Ingress", "Egress"}, only(t, c.policies).Spec.PolicyTypes)
}

func TestPodsAreConfined(t *testing.T) {
	c := build(t, "example")
	require.Equal(t, "restricted", only(t, c.namespaces).Labels["pod-security.kubernetes.io/enforce"])
	account := only(t, c.accounts)
	require.False(t, *account.AutomountServiceAccountToken)
	require.Equal(t, account.Name, only(t, c.deployments).Spec.Template.Spec.ServiceAccountName)
	for name, pod := range map[string]*corev1.PodSpec{
		"daemon": &only(t, c.deployments).Spec.Template.Spec, "wrapper": &only(t, c.cronJobs).Spec.JobTemplate.Spec.Template.Spec,
	} {
		require.False(t, *pod.AutomountServiceAccountToken, name)
		require.False(t, *pod.EnableServiceLinks, name)
		require.True(t, *pod.SecurityContext.RunAsNonRoot, name)
		require.EqualValues(t, 65532, *pod.SecurityContext.RunAsUser, name)
		require.Equal(t, *pod.SecurityContext.RunAsUser, *pod.SecurityContext.FSGroup, "%s: reads the Secret", name)
		require.Equal(t, corev1.SeccompProfileTypeRuntimeDefault, pod.SecurityContext.SeccompProfile.Type, name)
		container := only(t, ptrs(pod.Containers))
		require.True(t, *container.SecurityContext.ReadOnlyRootFilesystem, name)
		require.False(t, *container.SecurityContext.AllowPrivilegeEscalation, name)
		require.Equal(t, []corev1.Capability{"ALL"}, container.SecurityContext.Capabilities.Drop, name)
		require.Contains(t, container.Resources.Limits, corev1.ResourceMemory, name)
		require.NotContains(t, container.Resources.Limits, corev1.ResourceCPU, "%s: a session would be lost", name)
		_, tag, tagged := strings.Cut(container.Image, ":")
		require.True(t, tagged && tag != "latest", "%s: %s", name, container.Image)
	}
	d := only(t, c.deployments)
	require.EqualValues(t, 3, *d.Spec.Replicas)
	require.Equal(t, 1, only(t, c.disruptions).Spec.MaxUnavailable.IntValue())
}

func ptrs[T any](all []T) (pointers []*T) {
	for i := range all {
		pointers = append(pointers, &all[i])
	}
	return pointers
}

// Within its deadline the wrapper can wait, work as long as its lease, and clean up; its pod
// lives until the command has done that.
func TestCronJobLeavesTheWrapperItsTime(t *testing.T) {
	cron := only(t, build(t, "example").cronJobs)
	job := cron.Spec.JobTemplate.Spec
	pod := job.Template.Spec
	container := pod.Containers[0]
	require.Equal(t, []string{"lockkeeper", "exec"}, container.Command[:2])
	require.Equal(t, "--", container.Command[len(container.Command)-1])
	flags := map[string]string{}
	for pair := range slices.Chunk(container.Command[2:len(container.Command)-1], 2) {
		flags[pair[0]] = pair[1]
	}
	of := func(flag string) time.Duration {
		d, err := time.ParseDuration(flags[flag])
		require.NoError(t, err, flag)
		return d
	}
	cleanup := of("--cleanup")
	require.Greater(t, time.Duration(*job.ActiveDeadlineSeconds)*time.Second, of("--acquire")+of("--lease")+cleanup)
	require.Greater(t, time.Duration(*pod.TerminationGracePeriodSeconds)*time.Second, cleanup+10*time.Second)
	require.Equal(t, batchv1.ForbidConcurrent, cron.Spec.ConcurrencyPolicy)
	require.NotNil(t, cron.Spec.StartingDeadlineSeconds)
	require.Equal(t, corev1.RestartPolicyNever, pod.RestartPolicy)
	require.Equal(t, []int32{78, 126, 127}, job.PodFailurePolicy.Rules[0].OnExitCodes.Values)
	require.Equal(t, container.Name, *job.PodFailurePolicy.Rules[0].OnExitCodes.ContainerName)

	secret := only(t, build(t, "example").secrets)
	mounted := mountOf(t, &pod, func(v corev1.Volume) bool { return v.Secret != nil && v.Secret.SecretName == secret.Name })
	env := map[string]string{}
	for _, e := range container.Env {
		env[e.Name] = e.Value
	}
	require.Equal(t, mounted+"/zookeeper.digest", env["LOCKKEEPER_ZK_DIGEST_FILE"])
	cfg := build(t, "example").daemonConfig(t)
	require.Equal(t, strings.Join(cfg.Client.Servers, ","), env["LOCKKEEPER_ZK"], "daemon and wrapper must meet")
	require.Equal(t, cfg.Client.Root, env["LOCKKEEPER_ROOT"])
}

// The rules have one source. -update writes the manifest.
func TestPrometheusRuleHasTheRulesOfTheDashboards(t *testing.T) {
	rules, err := os.ReadFile(filepath.Join(root, "dashboards/rules.yaml"))
	require.NoError(t, err)
	var b strings.Builder
	b.WriteString("# Made from dashboards/rules.yaml by `make manifests`.\napiVersion: monitoring.coreos.com/v1\nkind: PrometheusRule\n" +
		"metadata:\n  name: lockkeeper\n  labels: {app.kubernetes.io/name: lockkeeper}\nspec:\n")
	for line := range strings.Lines(string(rules)) {
		if !strings.HasPrefix(line, "#") {
			b.WriteString("  " + line)
		}
	}
	golden(t, filepath.Join(manifests, "monitoring/prometheusrule.yaml"), b.String())
	var want any
	require.NoError(t, yaml.Unmarshal(rules, &want))
	require.Equal(t, want, only(t, build(t, "example").rules).Spec)
}
