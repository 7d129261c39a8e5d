package scenarios;

/** Counts who is inside at once. */
final class Room {
    private int inside;
    private int most;
    private int entries;

    synchronized void enter() {
        inside++;
        entries++;
        most = Math.max(most, inside);
    }

    synchronized void leave() {
        inside--;
    }

    synchronized int most() {
        return most;
    }

    synchronized int entries() {
        return entries;
    }
}
