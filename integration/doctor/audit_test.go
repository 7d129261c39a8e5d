package doctor

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/doctor"
	"github.com/lockkeeper/lockkeeper/recipes/opstore"
)

func TestAuditTrailThatWasChanged(t *testing.T) {
	server, cfg := shared.Server(t), asAna(t)
	c := client(t, cfg)
	use(t, c, "cluster/orders")
	finds(t, examine(t, doctor.Options{Client: cfg}), doctor.OK, "audit", "", "no records yet")

	log, err := c.AuditLog(0)
	require.NoError(t, err)
	for range 3 {
		_, err := log.Append(t.Context(), opstore.AuditEntry{Action: opstore.AuditBreak, Phase: opstore.AuditIntent, Scope: "cluster/orders", By: "ana", Reason: "INC-1"})
		require.NoError(t, err)
	}
	r := examine(t, doctor.Options{Client: cfg})
	finds(t, r, doctor.OK, "audit", "", "unbroken from record 1 to 3")
	none(t, r, doctor.Problem)

	conn := shell(t, server.Addr(), "ana")
	node := cfg.Root + "/audit/log/0000000002"
	data, stat, err := conn.Get(node)
	require.NoError(t, err)
	data[len(data)-3] ^= 1
	_, err = conn.Set(node, data, stat.Version)
	require.NoError(t, err)
	finds(t, examine(t, doctor.Options{Client: cfg}), doctor.Problem, "audit", "", "broken at record 2")
}
