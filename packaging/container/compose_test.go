package container

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/compose-spec/compose-go/v2/loader"
	"github.com/compose-spec/compose-go/v2/types"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"
)

const composeDir = "../compose"

// project loads the file as docker compose does, against the schema of Compose.
func project(t *testing.T) *types.Project {
	t.Helper()
	dir, err := filepath.Abs(composeDir)
	require.NoError(t, err)
	p, err := loader.LoadWithContext(t.Context(), types.ConfigDetails{
		WorkingDir: dir, ConfigFiles: []types.ConfigFile{{Filename: filepath.Join(dir, "compose.yaml")}}, Environment: types.Mapping{},
	})
	require.NoError(t, err)
	return p
}

// bind is what a service has mounted at a path.
func bind(t *testing.T, s *types.ServiceConfig, target string) string {
	t.Helper()
	for _, v := range s.Volumes {
		if v.Target == target {
			require.Equal(t, "bind", v.Type, target)
			require.True(t, v.ReadOnly, target)
			_, err := os.Stat(v.Source)
			require.NoError(t, err)
			return v.Source
		}
	}
	require.FailNow(t, "it is not mounted", target)
	return ""
}

func text(t *testing.T, elements ...string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(elements...))
	require.NoError(t, err)
	return string(data)
}

func TestComposeRunsTwoDaemonsOnThreeServers(t *testing.T) {
	p := project(t)
	var daemons, servers, named []string
	for name, s := range p.Services {
		_, tag, tagged := strings.Cut(s.Image, ":")
		require.True(t, tagged && tag != "latest", s.Image)
		switch {
		case strings.HasPrefix(s.Image, "lockkeeper:"):
			daemons = append(daemons, name)
			cfg := valid(t, text(t, bind(t, &s, "/etc/lockkeeper"), "lockkeeper.yaml"))
			require.Equal(t, 130*time.Second, drainOf(cfg), "the comment says so")
			require.Greater(t, time.Duration(*s.StopGracePeriod), drainOf(cfg))
			require.Equal(t, ":9464", cfg.Metrics.Listen)
			named = cfg.Client.Servers
			require.True(t, s.ReadOnly)
			require.Equal(t, []string{"ALL"}, s.CapDrop)
			require.Nil(t, s.Init, "the program is its own init")
			build, err := filepath.Abs(root)
			require.NoError(t, err)
			require.Equal(t, build, filepath.Clean(s.Build.Context))
			require.Equal(t, tag, *s.Build.Args["VERSION"])
		case strings.HasPrefix(s.Image, "zookeeper:"):
			servers = append(servers, name+":2181")
			id := strings.TrimPrefix(name, "zk")
			require.Equal(t, id, *s.Environment["ZOO_MY_ID"])
			require.Contains(t, *s.Environment["ZOO_SERVERS"], "server."+id+"="+name+":2888:3888;2181")
			require.Len(t, s.Volumes, 2)
		}
		for _, port := range s.Ports {
			require.Equal(t, "127.0.0.1", port.HostIP, "%s is for this machine alone", name)
		}
	}
	require.ElementsMatch(t, []string{"lockkeeper1", "lockkeeper2"}, daemons)
	require.ElementsMatch(t, named, servers)
	require.Len(t, servers, 3)
}

func TestPrometheusOfComposeFindsDaemonsAndRules(t *testing.T) {
	p := project(t)
	prometheus := p.Services["prometheus"]
	var cfg struct {
		Global        map[string]string `json:"global"`
		RuleFiles     []string          `json:"rule_files"`
		ScrapeConfigs []struct {
			JobName       string `json:"job_name"`
			StaticConfigs []struct {
				Targets []string `json:"targets"`
			} `json:"static_configs"`
		} `json:"scrape_configs"`
	}
	require.NoError(t, yaml.UnmarshalStrict([]byte(text(t, bind(t, &prometheus, "/etc/prometheus/prometheus.yml"))), &cfg))
	require.Equal(t, []string{"rules.yaml"}, cfg.RuleFiles)
	require.Equal(t, text(t, root, "dashboards/rules.yaml"), text(t, bind(t, &prometheus, "/etc/prometheus/rules.yaml")))
	require.Equal(t, []string{"lockkeeper1:9464", "lockkeeper2:9464"}, cfg.ScrapeConfigs[0].StaticConfigs[0].Targets)
}

func TestGrafanaOfComposeIsProvisioned(t *testing.T) {
	p := project(t)
	grafana := p.Services["grafana"]
	var providers struct {
		APIVersion int `json:"apiVersion"`
		Providers  []struct {
			Name    string            `json:"name"`
			Folder  string            `json:"folder"`
			Type    string            `json:"type"`
			Options map[string]string `json:"options"`
		} `json:"providers"`
	}
	require.NoError(t, yaml.UnmarshalStrict([]byte(text(t, bind(t, &grafana, "/etc/grafana/provisioning/dashboards"), "lockkeeper.yaml")), &providers))
	require.Len(t, providers.Providers, 1)
	dashboards, err := filepath.Glob(filepath.Join(bind(t, &grafana, providers.Providers[0].Options["path"]), "*.json"))
	require.NoError(t, err)
	require.NotEmpty(t, dashboards)
	var sources struct {
		APIVersion  int `json:"apiVersion"`
		Datasources []struct {
			Name      string `json:"name"`
			Type      string `json:"type"`
			Access    string `json:"access"`
			URL       string `json:"url"`
			IsDefault bool   `json:"isDefault"`
		} `json:"datasources"`
	}
	require.NoError(t, yaml.UnmarshalStrict([]byte(text(t, bind(t, &grafana, "/etc/grafana/provisioning/datasources"), "prometheus.yaml")), &sources))
	require.Equal(t, "http://prometheus:9090", sources.Datasources[0].URL)
	require.Contains(t, p.Services, "prometheus")
}
