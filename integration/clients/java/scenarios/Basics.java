package scenarios;

import static scenarios.Stage.bytes;
import static scenarios.Stage.check;

import java.util.Arrays;
import java.util.Collection;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.TreeSet;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.api.transaction.CuratorTransactionResult;
import org.apache.curator.framework.recipes.watch.PersistentWatcher;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.KeeperException;
import org.apache.zookeeper.Op;
import org.apache.zookeeper.OpResult;
import org.apache.zookeeper.Watcher;
import org.apache.zookeeper.ZooDefs;
import org.apache.zookeeper.ZooKeeper;
import org.apache.zookeeper.data.ACL;
import org.apache.zookeeper.data.Stat;

/** The framework itself: nodes, transactions, access and watches. */
final class Basics {
    private Basics() {}

    static void addTo(Map<String, Main.Scenario> all) {
        all.put("nodes", Basics::nodes);
        all.put("transactions", Basics::transactions);
        all.put("access", Basics::access);
        all.put("watches", Basics::watches);
        all.put("namespace", Basics::namespace);
    }

    private static String figures(Stat stat) {
        return String.format("version %d cversion %d aversion %d, %d bytes, %d children, ephemeral %s",
                stat.getVersion(), stat.getCversion(), stat.getAversion(), stat.getDataLength(), stat.getNumChildren(),
                stat.getEphemeralOwner() != 0);
    }

    private static void nodes(Stage stage) throws Exception {
        CuratorFramework client = stage.client();
        String node = stage.path("a", "b");
        stage.refused("no parent", () -> client.create().forPath(node, bytes("x")));
        stage.say("with parents:", client.create().creatingParentsIfNeeded().forPath(node, bytes("x")));
        stage.refused("twice", () -> client.create().forPath(node, bytes("y")));
        stage.say("or set:", client.create().orSetData().forPath(node, bytes("y")), client.getData().forPath(node));
        Stat stat = new Stat();
        stage.say("with stat:", client.create().storingStatIn(stat).forPath(stage.path("a", "c"), bytes("12")), figures(stat));
        stage.refused("wrong version", () -> client.setData().withVersion(5).forPath(node, bytes("z")));
        stage.say("right version:", figures(client.setData().withVersion(1).forPath(node, bytes("zzz"))));
        stage.say("no data:", client.create().forPath(stage.path("a", "d")), client.getData().forPath(stage.path("a", "d")));
        stage.say("null data:", client.create().forPath(stage.path("a", "null"), null),
                client.getData().forPath(stage.path("a", "null")));
        stage.say("children:", new TreeSet<>(client.getChildren().storingStatIn(stat).forPath(stage.path("a"))), figures(stat));

        String sequence = stage.path("a", "s-");
        for (CreateMode mode : Arrays.asList(CreateMode.PERSISTENT_SEQUENTIAL, CreateMode.EPHEMERAL_SEQUENTIAL)) {
            stage.say(mode, client.create().withMode(mode).forPath(sequence, bytes("s")));
            stage.say(mode, "protected:", client.create().withProtection().withMode(mode).forPath(sequence, bytes("s")));
        }
        ZooKeeper plain = client.getZookeeperClient().getZooKeeper();
        stage.say("descendants:", plain.getAllChildrenNumber(stage.path()), "ephemerals:", plain.getEphemerals(stage.path()).size(),
                "elsewhere:", plain.getEphemerals(stage.path("elsewhere")).size());
        stage.refused("not empty", () -> client.delete().forPath(stage.path("a")));
        client.delete().guaranteed().forPath(node);
        stage.say("deleted:", client.checkExists().forPath(node));
        client.delete().quietly().forPath(node);
        stage.refused("deleted twice", () -> client.delete().forPath(node));
        Mailbox done = new Mailbox();
        client.create().inBackground((c, event) -> done.put(event.getType(), event.getResultCode(), event.getPath()))
                .forPath(node, bytes("bg"));
        stage.say("in the background:", done.take().replace(stage.path(), "~"));
        client.sync().inBackground((c, event) -> done.put(event.getType(), event.getResultCode())).forPath(node);
        stage.say("in the background:", done.take());
        stage.say("many reads at once:", reads(plain.multi(Arrays.asList(
                Op.getData(node), Op.getChildren(stage.path("a", "c")), Op.getData(stage.path("none"))))));
        client.delete().deletingChildrenIfNeeded().forPath(stage.path("a"));
        stage.say("all deleted:", client.checkExists().forPath(stage.path("a")));
    }

    private static String reads(List<OpResult> results) {
        StringBuilder text = new StringBuilder();
        for (OpResult one : results) {
            if (one instanceof OpResult.GetDataResult) {
                text.append(Stage.string(((OpResult.GetDataResult) one).getData())).append("; ");
            } else if (one instanceof OpResult.GetChildrenResult) {
                text.append(((OpResult.GetChildrenResult) one).getChildren()).append("; ");
            } else {
                text.append(KeeperException.Code.get(((OpResult.ErrorResult) one).getErr())).append("; ");
            }
        }
        return text.toString().trim();
    }

    private static void transactions(Stage stage) throws Exception {
        CuratorFramework client = stage.client();
        client.create().creatingParentsIfNeeded().forPath(stage.path("old"), bytes("old"));
        say(stage, client.transaction().forOperations(
                client.transactionOp().check().withVersion(0).forPath(stage.path("old")),
                client.transactionOp().create().forPath(stage.path("new"), bytes("n")),
                client.transactionOp().create().withMode(CreateMode.EPHEMERAL_SEQUENTIAL).forPath(stage.path("s-"), bytes("s")),
                client.transactionOp().create().withMode(CreateMode.CONTAINER).forPath(stage.path("container"), bytes("c")),
                client.transactionOp().setData().withVersion(0).forPath(stage.path("old"), bytes("changed")),
                client.transactionOp().delete().forPath(stage.path("new"))));
        stage.tree(client, stage.path());
        stage.refused("a wrong version", () -> client.transaction().forOperations(
                client.transactionOp().setData().forPath(stage.path("old"), bytes("never")),
                client.transactionOp().check().withVersion(99).forPath(stage.path("old")),
                client.transactionOp().create().forPath(stage.path("never"))));
        stage.refused("a node that is there", () -> client.transaction().forOperations(
                client.transactionOp().delete().forPath(stage.path("container")),
                client.transactionOp().create().forPath(stage.path("old"))));
        stage.tree(client, stage.path());
        ZooKeeper plain = client.getZookeeperClient().getZooKeeper();
        try {
            plain.multi(Arrays.asList(Op.delete(stage.path("container"), -1), Op.delete(stage.path("none"), -1),
                    Op.delete(stage.path("old"), -1)));
        } catch (KeeperException e) {
            StringBuilder codes = new StringBuilder();
            for (OpResult one : e.getResults()) {
                codes.append(KeeperException.Code.get(((OpResult.ErrorResult) one).getErr())).append(' ');
            }
            stage.say("each:", e.code(), "of", codes.toString().trim());
        }
    }

    private static void say(Stage stage, Collection<CuratorTransactionResult> results) {
        for (CuratorTransactionResult one : results) {
            stage.say(one.getType(), one.getError() == 0, one.getForPath(), "gives", one.getResultPath(),
                    one.getResultStat() == null ? "" : figures(one.getResultStat()));
        }
    }

    private static void access(Stage stage) throws Exception {
        CuratorFramework ann = stage.client(CuratorFrameworkFactory.builder().authorization("digest", bytes("ann:pw")));
        CuratorFramework bea = stage.client();
        String own = stage.path("own");
        ann.create().creatingParentsIfNeeded().withACL(ZooDefs.Ids.CREATOR_ALL_ACL, false).forPath(own, bytes("secret"));
        Stat stat = new Stat();
        stage.say("ACL:", ann.getACL().storingStatIn(stat).forPath(own), figures(stat));
        stage.refused("a stranger", () -> bea.getData().forPath(own));
        stage.refused("a stranger's child", () -> bea.create().forPath(own + "/child"));
        List<ACL> open = Collections.singletonList(new ACL(ZooDefs.Perms.READ, ZooDefs.Ids.ANYONE_ID_UNSAFE));
        stage.say("open to read:", figures(ann.setACL().withVersion(0).withACL(open).forPath(own)));
        stage.say("a stranger reads:", bea.getData().forPath(own));
        stage.refused("but not writes", () -> bea.setData().forPath(own, bytes("x")));
        stage.refused("and now no client may change that", () -> ann.setACL().withACL(ZooDefs.Ids.OPEN_ACL_UNSAFE).forPath(own));
        stage.say("but the parent's keeper may delete it:", bea.delete().forPath(own));
    }

    private static void watches(Stage stage) throws Exception {
        CuratorFramework client = stage.client();
        CuratorFramework other = stage.client();
        Mailbox seen = new Mailbox();
        Watcher watcher = event -> {
            if (event.getType() != Watcher.Event.EventType.None) {
                seen.put(event.getType(), event.getPath().replace(stage.path(), "~"));
            }
        };
        String node = stage.path("node");
        other.create().creatingParentsIfNeeded().forPath(stage.path("other"));
        client.checkExists().usingWatcher(watcher).forPath(node);
        other.create().forPath(node, bytes("1"));
        stage.say("exists:", seen.take());
        client.getData().usingWatcher(watcher).forPath(node);
        other.setData().forPath(node, bytes("2"));
        stage.say("data:", seen.take());
        client.getChildren().usingWatcher(watcher).forPath(node);
        other.create().forPath(node + "/child");
        stage.say("children:", seen.take());
        client.getData().usingWatcher(watcher).forPath(node);
        client.watchers().remove(watcher).forPath(node);
        stage.say("removed:", seen.take());
        stage.refused("removed twice", () -> client.watchers().remove(watcher).forPath(node));
        other.setData().forPath(node, bytes("3"));
        client.getData().forPath(node);
        stage.say("quiet:", seen.isEmpty());

        PersistentWatcher persistent = new PersistentWatcher(client, node, false);
        PersistentWatcher recursive = new PersistentWatcher(client, stage.path(), true);
        Mailbox heard = new Mailbox();
        persistent.getListenable().addListener(event -> heard.put(event.getType(), event.getPath().replace(stage.path(), "~")));
        recursive.getListenable().addListener(event -> {
            // Before 3.9 the client passes on those of other watches too.
            if (event.getType() != Watcher.Event.EventType.NodeChildrenChanged) {
                watcher.process(event);
            }
        });
        CountDownLatch set = new CountDownLatch(2);
        persistent.getResetListenable().addListener(set::countDown);
        recursive.getResetListenable().addListener(set::countDown);
        persistent.start();
        recursive.start();
        check(set.await(Stage.SOON_SECONDS, TimeUnit.SECONDS), "the watches are not set");
        for (String data : new String[] {"4", "5"}) {
            other.setData().forPath(node, bytes(data));
            stage.say("persistent:", heard.take(), "and recursive:", seen.take());
        }
        other.create().forPath(node + "/child/deep");
        stage.say("recursive alone:", seen.take());
        other.delete().forPath(node + "/child/deep");
        stage.say("recursive alone:", seen.take());
        other.delete().forPath(node + "/child");
        stage.say("persistent:", heard.take(), "and recursive:", seen.take());
        persistent.close();
        other.delete().forPath(node);
        stage.say("closed:", heard.isEmpty(), "the other not:", seen.take());
        recursive.close();
    }

    private static void namespace(Stage stage) throws Exception {
        CuratorFramework client = stage.client();
        CuratorFramework inner = client.usingNamespace(stage.path("inner").substring(1));
        stage.say("created:", inner.create().creatingParentsIfNeeded().forPath("/a/b", bytes("x")));
        stage.say("from outside:", client.getData().forPath(stage.path("inner", "a", "b")));
        Mailbox seen = new Mailbox();
        inner.getData().usingWatcher((Watcher) event -> seen.put(event.getType(), event.getPath())).forPath("/a/b");
        client.setData().forPath(stage.path("inner", "a", "b"), bytes("y"));
        stage.say("seen:", seen.take());
        try (CuratorFramework rooted = CuratorFrameworkFactory.newClient(
                stage.connect() + stage.path("inner"), new org.apache.curator.retry.RetryOneTime(100))) {
            rooted.start();
            stage.say("by connect string:", rooted.getChildren().forPath("/"), rooted.getData().forPath("/a/b"));
            stage.say("in sequence:", rooted.create().withMode(CreateMode.PERSISTENT_SEQUENTIAL).forPath("/a/s-", bytes("s")));
        }
    }
}
