package scenarios;

import static scenarios.Stage.bytes;
import static scenarios.Stage.check;
import static scenarios.Stage.eventually;

import java.util.Arrays;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.nodes.PersistentNode;
import org.apache.curator.framework.recipes.nodes.PersistentTtlNode;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.Op;
import org.apache.zookeeper.ZooDefs;
import org.apache.zookeeper.data.Stat;

/** Nodes that come and go by themselves: containers, nodes with a time to live, nodes that are kept in being. */
final class Kinds {
    private Kinds() {}

    static void addTo(Map<String, Main.Scenario> all) {
        all.put("containers", Kinds::containers);
        all.put("ttl", Kinds::ttl);
        all.put("persistentnode", Kinds::persistentNode);
    }

    private static boolean there(CuratorFramework client, String path) throws Exception {
        return client.checkExists().forPath(path) != null;
    }

    private static void containers(Stage stage) throws Exception {
        CuratorFramework client = stage.client();
        String container = stage.path("container");
        client.create().creatingParentContainersIfNeeded().forPath(container + "/child", bytes("c"));
        Stat stat = client.checkExists().forPath(container);
        stage.say("a container:", stat.getNumChildren(), "child, ephemeral:", stat.getEphemeralOwner() != 0);
        client.create().withMode(CreateMode.CONTAINER).forPath(stage.path("unused"), bytes("u"));
        client.create().forPath(stage.path("plain"), bytes("p"));
        client.create().forPath(stage.path("plain", "child"), bytes("c"));
        client.delete().forPath(stage.path("plain", "child"));
        client.delete().forPath(container + "/child");
        eventually(() -> !there(client, container));
        stage.say("empty, it goes:", there(client, container), "one that never had a child stays:",
                there(client, stage.path("unused")), "and a plain node:", there(client, stage.path("plain")));
        client.createContainers(stage.path("deep", "er"));
        stage.say("containers for paths:", there(client, stage.path("deep", "er")));
    }

    private static void ttl(Stage stage) throws Exception {
        CuratorFramework client = stage.client();
        String brief = stage.path("brief");
        String parent = stage.path("parent");
        String late = stage.path("late");
        Stat stat = new Stat();
        client.create().withTtl(60_000).withMode(CreateMode.PERSISTENT_WITH_TTL).forPath(late, bytes("l"));
        // Both at once: alone the parent could go before its child is there.
        client.getZookeeperClient().getZooKeeper().multi(Arrays.asList(
                Op.create(parent, bytes("p"), ZooDefs.Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT_WITH_TTL, 50),
                Op.create(parent + "/child", bytes("c"), ZooDefs.Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT)));
        client.create().withTtl(50).storingStatIn(stat).withMode(CreateMode.PERSISTENT_WITH_TTL).forPath(brief, bytes("b"));
        stage.say("ephemeral:", stat.getEphemeralOwner() != 0);
        eventually(() -> !there(client, brief));
        stage.say("gone in time:", !there(client, brief), "not that with a child:", there(client, parent),
                "not that of a minute:", there(client, late));
        client.delete().forPath(parent + "/child");
        eventually(() -> !there(client, parent));
        stage.say("gone without its child:", !there(client, parent));
        stage.say("in sequence:", client.create().withTtl(60_000).withMode(CreateMode.PERSISTENT_SEQUENTIAL_WITH_TTL)
                .forPath(stage.path("s-"), bytes("s")));
        stage.refused("no time at all", () -> client.create().withTtl(0).withMode(CreateMode.PERSISTENT_WITH_TTL)
                .forPath(stage.path("none")));
        String kept = stage.path("kept");
        PersistentTtlNode node = new PersistentTtlNode(client, kept, 3000, bytes("k"));
        node.start();
        check(node.waitForInitialCreate(Stage.SOON_SECONDS, TimeUnit.SECONDS), "not created");
        int before = client.checkExists().forPath(kept).getCversion();
        eventually(() -> client.checkExists().forPath(kept).getCversion() > before || there(client, kept + "/touch"));
        stage.say("kept by touching it:", client.getData().forPath(kept));
        node.close();
        eventually(() -> !there(client, kept));
        stage.say("and then not:", !there(client, kept));
    }

    private static void persistentNode(Stage stage) throws Exception {
        CuratorFramework client = stage.client();
        CuratorFramework other = stage.client();
        String path = stage.path("node");
        PersistentNode node = new PersistentNode(client, CreateMode.EPHEMERAL, false, path, bytes("mine"));
        node.start();
        check(node.waitForInitialCreate(Stage.SOON_SECONDS, TimeUnit.SECONDS), "not created");
        stage.tree(other, stage.path());
        long first = other.checkExists().forPath(path).getCzxid();
        other.delete().forPath(path);
        eventually(() -> there(other, path));
        stage.say("deleted, it comes back:", other.getData().forPath(path), other.checkExists().forPath(path).getCzxid() > first);
        node.setData(bytes("new"));
        eventually(() -> Stage.string(other.getData().forPath(path)).equals("new"));
        long owner = other.checkExists().forPath(path).getEphemeralOwner();
        stage.expire(client);
        eventually(() -> {
            Stat stat = other.checkExists().forPath(path);
            return stat != null && stat.getEphemeralOwner() != owner;
        });
        stage.say("its session expired, it comes back:", other.getData().forPath(path));
        node.close();
        eventually(() -> !there(other, path));
        PersistentNode many = new PersistentNode(client, CreateMode.PERSISTENT_SEQUENTIAL, true, stage.path("many", "m-"), bytes("m"));
        many.start();
        check(many.waitForInitialCreate(Stage.SOON_SECONDS, TimeUnit.SECONDS), "not created");
        stage.say("protected, in sequence:", many.getActualPath());
        many.close();
    }
}
