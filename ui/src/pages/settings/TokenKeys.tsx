import { Button } from "@mantine/core";
import { modals } from "@mantine/modals";
import { useQuery } from "@tanstack/react-query";
import { api, got } from "@/api/client";
import { useMay } from "@/api/queries";
import { useWritesHeld } from "@/api/writes";
import { done, refused } from "@/components/answers";
import { Card } from "@/components/Card";
import { Moment } from "@/components/Moment";
import { Loaded } from "@/components/states";
import { text as frame } from "@/text/frame";
import { text } from "@/text/settings";
import classes from "./Settings.module.css";

const { tokenKeys: words } = text;

export function TokenKeys() {
  const query = useQuery({
    queryKey: ["settings", "token-keys"],
    queryFn: async () => (await got(api.GET("/api/v1/security/token-keys"))).keys,
    staleTime: 0,
  });
  const mayWrite = useMay("setting.write");
  const isHeld = useWritesHeld();
  const rotate = async (overlap: boolean) => {
    try {
      await got(api.POST("/api/v1/security/token-keys/rotate", { body: { overlap } }));
      done(words.rotated);
      await query.refetch();
    } catch (error) {
      refused(error);
    }
  };
  const ask = (overlap: boolean) =>
    modals.openConfirmModal({
      title: overlap ? words.rotateTitle : words.stolenTitle,
      children: overlap ? words.rotateHint : words.stolenHint,
      labels: { confirm: words.rotate, cancel: frame.shared.cancel },
      ...(overlap ? {} : { confirmProps: { color: "red" } }),
      onConfirm: () => void rotate(overlap),
    });
  return (
    <Card
      title={words.title}
      aside={
        mayWrite && (
          <>
            <Button size="xs" disabled={isHeld} onClick={() => ask(true)}>
              {words.rotate}
            </Button>
            <Button size="xs" color="red" disabled={isHeld} onClick={() => ask(false)}>
              {words.rotateNow}
            </Button>
          </>
        )
      }
    >
      <p className={classes.hint}>{words.hint}</p>
      <Loaded query={query} rows={2}>
        {(keys) => (
          <table className={classes.table}>
            <thead>
              <tr>
                <th scope="col">{words.id}</th>
                <th scope="col">{words.algorithm}</th>
                <th scope="col">{words.created}</th>
                <th scope="col">{words.until}</th>
              </tr>
            </thead>
            <tbody>
              {keys.map((each) => (
                <tr key={each.id}>
                  <td>{each.id}</td>
                  <td>{each.algorithm}</td>
                  <td>
                    <Moment at={each.createdAt} />
                  </td>
                  <td>{each.publishedUntil ? <Moment at={each.publishedUntil} /> : words.present}</td>
                </tr>
              ))}
            </tbody>
          </table>
        )}
      </Loaded>
    </Card>
  );
}
