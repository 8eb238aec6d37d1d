import { Button } from "@mantine/core";
import { IconShieldCheck } from "@tabler/icons-react";
import { useState } from "react";
import { api, got, type Schema } from "@/api/client";
import { refused } from "@/components/answers";
import { CopyIcon } from "@/components/CopyText";
import { Notice } from "@/components/Notice";
import { text } from "@/text/audit";
import classes from "./Audit.module.css";

export function useVerification() {
  const [result, setResult] = useState<Schema<"AuditVerification"> | null>(null);
  const [isBusy, setBusy] = useState(false);
  const verify = async () => {
    setBusy(true);
    try {
      setResult(await got(api.GET("/api/v1/audit/verify")));
    } catch (error) {
      refused(error);
    } finally {
      setBusy(false);
    }
  };
  return { result, isBusy, verify, close: () => setResult(null) };
}

export function VerifyButton({ isBusy, onVerify }: { isBusy: boolean; onVerify: () => void }) {
  return (
    <Button leftSection={<IconShieldCheck size={16} />} loading={isBusy} onClick={onVerify} title={text.verifyHint}>
      {text.verify}
    </Button>
  );
}

export function ChainResult({ result, onClose }: { result: Schema<"AuditVerification">; onClose: () => void }) {
  const { isIntact, checked, head, firstBroken, why } = result;
  return (
    <Notice
      tone={isIntact ? "good" : "bad"}
      title={isIntact ? text.intact(checked, head.id) : text.broken(firstBroken ?? null, why ?? "")}
      onClose={onClose}
    >
      <p className={classes.head}>
        <span>{text.head}</span>
        <code className={classes.hash}>{`${head.id}:${head.hash}`}</code>
        <CopyIcon value={`${head.id}:${head.hash}`} label={text.head} />
      </p>
      <p>{text.headHint}</p>
    </Notice>
  );
}
