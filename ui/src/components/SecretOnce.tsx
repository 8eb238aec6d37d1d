import { Button, Group, Modal, Stack } from "@mantine/core";
import { text } from "@/text/secret";
import { CopyIcon } from "./CopyText";
import classes from "./SecretOnce.module.css";

export interface Secret {
  title: string;
  /** What it is for, and what to do with it. */
  hint: string;
  values: { label: string; value: string }[];
}

/** A password or secret that the server shows once. It closes only on purpose, so that a stray click does not lose it. */
export function SecretOnce({ secret, onClose }: { secret: Secret | null; onClose: () => void }) {
  return (
    <Modal
      opened={secret !== null}
      onClose={onClose}
      title={secret?.title}
      closeOnClickOutside={false}
      closeOnEscape={false}
      withCloseButton={false}
    >
      {secret !== null && (
        <Stack gap="sm">
          <p>{secret.hint}</p>
          <dl className={classes.values}>
            {secret.values.map((each) => (
              <div key={each.label} className={classes.value}>
                <dt>{each.label}</dt>
                <dd>
                  <code>{each.value}</code>
                  <CopyIcon value={each.value} label={text.copy(each.label)} />
                </dd>
              </div>
            ))}
          </dl>
          <p className={classes.once}>{text.once}</p>
          <Group justify="flex-end">
            <Button variant="filled" onClick={onClose} data-autofocus>
              {text.noted}
            </Button>
          </Group>
        </Stack>
      )}
    </Modal>
  );
}
