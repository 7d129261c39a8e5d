package scenarios;

import static scenarios.Stage.eventually;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.TreeSet;
import java.util.concurrent.CountDownLatch;
import java.util.stream.Collectors;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.leader.LeaderLatch;
import org.apache.curator.framework.recipes.leader.LeaderLatchListener;
import org.apache.curator.framework.recipes.leader.LeaderSelector;
import org.apache.curator.framework.recipes.leader.LeaderSelectorListenerAdapter;
import org.apache.curator.framework.recipes.leader.Participant;

/** One leader of many, and the next. */
final class Leaders {
    private Leaders() {}

    static void addTo(Map<String, Main.Scenario> all) {
        all.put("leaderlatch", Leaders::latch);
        all.put("leaderselector", Leaders::selector);
    }

    private static void latch(Stage stage) throws Exception {
        String path = stage.path("latch");
        Mailbox heard = new Mailbox();
        List<CuratorFramework> clients = new ArrayList<>();
        List<LeaderLatch> latches = new ArrayList<>();
        for (String name : new String[] {"ann", "bea", "cid"}) {
            clients.add(stage.client());
            LeaderLatch latch = new LeaderLatch(clients.get(clients.size() - 1), path, name);
            latch.addListener(new LeaderLatchListener() {
                @Override
                public void isLeader() {
                    heard.put(name, "leads");
                }

                @Override
                public void notLeader() {
                    heard.put(name, "leads no more");
                }
            });
            latches.add(latch);
            latch.start();
            eventually(() -> latch.getParticipants().size() == latches.size());
        }
        stage.say(heard.take(), "of", names(latches.get(2)), "as all know:", latches.get(1).getLeader());
        stage.tree(clients.get(0), path);
        stage.say("one leads:", led(latches));
        latches.get(0).close(LeaderLatch.CloseMode.NOTIFY_LEADER);
        // Each hears of it in its own time.
        stage.say("it hands over:", new TreeSet<>(Arrays.asList(heard.take(), heard.take())));
        latches.get(1).await();
        stage.say("one leads:", led(latches), names(latches.get(2)));
        clients.get(1).close();
        latches.get(2).await();
        stage.say("its client ends:", heard.take(), names(latches.get(2)));
        latches.get(2).close();
        stage.say("no more:", latches.get(2).hasLeadership(), latches.get(2).getState(), heard.isEmpty());
    }

    private static List<Boolean> led(List<LeaderLatch> latches) {
        return latches.stream().map(LeaderLatch::hasLeadership).collect(Collectors.toList());
    }

    private static List<String> names(LeaderLatch latch) throws Exception {
        return latch.getParticipants().stream().map(Participant::getId).collect(Collectors.toList());
    }

    private static void selector(Stage stage) throws Exception {
        String path = stage.path("selector");
        Mailbox heard = new Mailbox();
        List<LeaderSelector> selectors = new ArrayList<>();
        List<CountDownLatch> over = new ArrayList<>();
        for (String name : new String[] {"ann", "bea", "cid"}) {
            CountDownLatch end = new CountDownLatch(1);
            LeaderSelector selector = new LeaderSelector(stage.client(), path, new LeaderSelectorListenerAdapter() {
                @Override
                public void takeLeadership(CuratorFramework client) throws Exception {
                    heard.put(name, "leads");
                    try {
                        end.await();
                    } catch (InterruptedException e) {
                        heard.put(name, "is interrupted");
                        throw e;
                    }
                }
            });
            selector.setId(name);
            selectors.add(selector);
            over.add(end);
            selector.start();
            eventually(() -> selector.getParticipants().size() == selectors.size());
        }
        LeaderSelector ann = selectors.get(0);
        ann.autoRequeue();
        stage.say(heard.take(), "as all know:", selectors.get(2).getLeader(), selectors.get(2).getParticipants().size());
        over.get(0).countDown();
        stage.say("it is done:", heard.take(), selectors.get(1).hasLeadership());
        selectors.get(1).interruptLeadership();
        stage.say("it is to end:", heard.take() + ",", heard.take());
        // Ann may hear late that her node is gone: only then she stands in line anew.
        eventually(() -> ann.getParticipants().size() == 2);
        stage.say("who is done queues again:", selectors.get(2).requeue(), ann.requeue());
        selectors.get(2).close();
        stage.say("its selector ends:", heard.take());
        for (LeaderSelector one : selectors.subList(0, 2)) {
            one.close();
        }
    }
}
