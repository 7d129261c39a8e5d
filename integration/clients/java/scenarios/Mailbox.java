package scenarios;

import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;

/** What callbacks report, in the order in which they were called. */
final class Mailbox {
    private final BlockingQueue<String> reports = new LinkedBlockingQueue<>();

    void put(Object... words) {
        StringBuilder line = new StringBuilder();
        for (Object word : words) {
            String text = word instanceof byte[] ? Stage.string((byte[]) word) : String.valueOf(word);
            line.append(line.length() > 0 ? " " : "").append(text);
        }
        reports.add(line.toString());
    }

    /** The next report, waited for. */
    String take() throws InterruptedException {
        String report = reports.poll(Stage.SOON_SECONDS, TimeUnit.SECONDS);
        Stage.check(report != null, "no report after " + Stage.SOON_SECONDS + " seconds");
        return report;
    }

    boolean isEmpty() {
        return reports.isEmpty();
    }
}
