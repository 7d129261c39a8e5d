package scenarios;

import static scenarios.Stage.beside;
import static scenarios.Stage.bytes;
import static scenarios.Stage.eventually;
import static scenarios.Stage.result;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeSet;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.barriers.DistributedBarrier;
import org.apache.curator.framework.recipes.barriers.DistributedDoubleBarrier;
import org.apache.curator.framework.recipes.nodes.GroupMember;
import org.apache.curator.framework.recipes.queue.SimpleDistributedQueue;

/** Where clients wait for each other and pass things on. */
final class Meetings {
    private Meetings() {}

    static void addTo(Map<String, Main.Scenario> all) {
        all.put("barriers", Meetings::barriers);
        all.put("queue", Meetings::queue);
        all.put("group", Meetings::group);
    }

    private static void barriers(Stage stage) throws Exception {
        CuratorFramework client = stage.client();
        DistributedBarrier gate = new DistributedBarrier(client, stage.path("gate"));
        DistributedBarrier same = new DistributedBarrier(stage.client(), stage.path("gate"));
        stage.say("no barrier:", same.waitOnBarrier(0, TimeUnit.SECONDS));
        gate.setBarrier();
        stage.say("closed:", same.waitOnBarrier(100, TimeUnit.MILLISECONDS));
        Future<Boolean> waiting = beside(() -> same.waitOnBarrier(Stage.SOON_SECONDS, TimeUnit.SECONDS));
        gate.removeBarrier();
        stage.say("removed:", result(waiting));

        List<DistributedDoubleBarrier> doors = new ArrayList<>();
        for (int i = 0; i < 3; i++) {
            doors.add(new DistributedDoubleBarrier(stage.client(), stage.path("both"), 3));
        }
        List<Future<Boolean>> entering = new ArrayList<>();
        for (DistributedDoubleBarrier door : doors.subList(0, 2)) {
            entering.add(beside(() -> door.enter(Stage.SOON_SECONDS, TimeUnit.SECONDS)));
        }
        eventually(() -> client.checkExists().forPath(stage.path("both")) != null
                && client.getChildren().forPath(stage.path("both")).size() == 2);
        stage.say("two of three wait:", entering.get(0).isDone(), entering.get(1).isDone());
        stage.say("the third:", doors.get(2).enter(Stage.SOON_SECONDS, TimeUnit.SECONDS), result(entering.get(0)), result(entering.get(1)));
        List<Future<Boolean>> leaving = new ArrayList<>();
        for (DistributedDoubleBarrier door : doors) {
            leaving.add(beside(() -> door.leave(Stage.SOON_SECONDS, TimeUnit.SECONDS)));
        }
        stage.say("all leave:", result(leaving.get(0)), result(leaving.get(1)), result(leaving.get(2)));
    }

    private static void queue(Stage stage) throws Exception {
        SimpleDistributedQueue queue = new SimpleDistributedQueue(stage.client(), stage.path("queue"));
        SimpleDistributedQueue other = new SimpleDistributedQueue(stage.client(), stage.path("queue"));
        stage.say("empty:", queue.peek(), queue.poll(), queue.poll(100, TimeUnit.MILLISECONDS));
        for (String value : new String[] {"one", "two", "three"}) {
            queue.offer(bytes(value));
        }
        stage.say("in order:", other.peek(), other.poll(), queue.remove(), other.element(), queue.take());
        stage.refused("empty again", queue::remove);
        Future<byte[]> waiting = beside(() -> other.poll(Stage.SOON_SECONDS, TimeUnit.SECONDS));
        queue.offer(bytes("late"));
        stage.say("one who waits:", result(waiting));
    }

    private static void group(Stage stage) throws Exception {
        CuratorFramework client = stage.client();
        try (GroupMember ann = new GroupMember(stage.client(), stage.path("group"), "ann", bytes("a"));
                GroupMember bea = new GroupMember(client, stage.path("group"), "bea", bytes("b"))) {
            ann.start();
            bea.start();
            eventually(() -> ann.getCurrentMembers().size() == 2 && bea.getCurrentMembers().size() == 2);
            stage.say("both:", new TreeSet<>(ann.getCurrentMembers().keySet()), bea.getCurrentMembers().get("ann"));
            bea.setThisData(bytes("new"));
            eventually(() -> ann.getCurrentMembers().containsKey("bea")
                    && Stage.string(ann.getCurrentMembers().get("bea")).equals("new"));
            stage.say("news of one:", ann.getCurrentMembers().get("bea"));
            client.close();
            eventually(() -> ann.getCurrentMembers().size() == 1);
            stage.say("one dies:", ann.getCurrentMembers().keySet());
        }
    }
}
