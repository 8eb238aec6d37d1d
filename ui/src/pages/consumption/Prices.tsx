/** Prices of an hour of a GPU, a core and a GiB. */
import { ActionIcon, Button, NumberInput, Select, TextInput } from "@mantine/core";
import { DateTimePicker } from "@mantine/dates";
import { IconTrash } from "@tabler/icons-react";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { ApiError, api, got, type Schema } from "@/api/client";
import { useMay } from "@/api/queries";
import { useWritesHeld } from "@/api/writes";
import { done, refused, withUndo } from "@/components/answers";
import { Card } from "@/components/Card";
import { Moment } from "@/components/Moment";
import { Empty, Loaded } from "@/components/states";
import { readUsageAgain } from "@/pages/analytics/data";
import { text } from "@/text/consumption";
import classes from "./Consumption.module.css";

const words = text.prices;
const KEY = ["settings", "prices"] as const;
const RESOURCES = Object.entries(words.resources).map(([value, label]) => ({ value, label }));

export function Prices() {
  const maySet = useMay("setting.write");
  const query = useQuery({ queryKey: KEY, queryFn: () => got(api.GET("/api/v1/accounting/prices")) });
  const [hidden, hide] = useState<string[]>([]);
  return (
    <Card title={words.title} note={words.note} flush>
      <Loaded query={query} rows={2}>
        {({ prices }) => {
          const shown = prices.filter((each) => !hidden.includes(each.id));
          return shown.length === 0 ? (
            <Empty title={words.none} hint={words.noneHint} />
          ) : (
            <PriceTable
              prices={shown}
              maySet={maySet}
              onHide={(id) => hide([...hidden, id])}
              onShow={(id) => hide((all) => all.filter((each) => each !== id))}
            />
          );
        }}
      </Loaded>
      {maySet && <NewPrice />}
    </Card>
  );
}

interface TableProps {
  prices: Schema<"Price">[];
  maySet: boolean;
  onHide: (id: string) => void;
  onShow: (id: string) => void;
}

function PriceTable({ prices, maySet, onHide, onShow }: TableProps) {
  const queries = useQueryClient();
  const isHeld = useWritesHeld();
  const remove = (price: Schema<"Price">) => {
    onHide(price.id);
    withUndo(
      words.removed(words.resources[price.resource]),
      async () => {
        await got(api.DELETE("/api/v1/accounting/prices/{price_id}", { params: { path: { price_id: price.id } } }));
        await queries.invalidateQueries({ queryKey: KEY });
        await readUsageAgain(queries);
      },
      () => onShow(price.id),
    );
  };
  return (
    <div className={classes.scroll}>
      <table className={classes.table}>
        <thead>
          <tr>
            {[words.resource, words.gpuType].map((each) => (
              <th key={each} scope="col">
                {each}
              </th>
            ))}
            <th scope="col" className={classes.right}>
              {words.price}
            </th>
            <th scope="col">{words.from}</th>
            <th scope="col">{words.by}</th>
            {maySet && <td />}
          </tr>
        </thead>
        <tbody>
          {prices.map((each) => (
            <tr key={each.id}>
              <td>{words.resources[each.resource]}</td>
              <td>{each.resource === "gpu" ? each.gpuType || words.anyType : null}</td>
              <td className={classes.right}>{each.price}</td>
              <td>
                <Moment at={each.from} />
              </td>
              <td>{each.createdBy}</td>
              {maySet && (
                <td className={classes.right}>
                  <ActionIcon
                    variant="subtle"
                    color="gray"
                    disabled={isHeld}
                    onClick={() => remove(each)}
                    aria-label={words.remove(words.resources[each.resource])}
                  >
                    <IconTrash size={16} />
                  </ActionIcon>
                </td>
              )}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function NewPrice() {
  const queries = useQueryClient();
  const isHeld = useWritesHeld();
  const [resource, setResource] = useState<Schema<"PricedResource">>("gpu");
  const [gpuType, setGpuType] = useState("");
  const [price, setPrice] = useState<number | string>("");
  const [from, setFrom] = useState<string | null>(null);
  const set = useMutation({
    mutationFn: () => {
      const hour = from === null ? null : `${from.slice(0, 13).replace(" ", "T")}:00:00Z`;
      const body = { resource, gpuType: resource === "gpu" ? gpuType.trim() : "", price: String(price), from: hour };
      return got(api.POST("/api/v1/accounting/prices", { body }));
    },
    onSuccess: async () => {
      done(words.done);
      setPrice("");
      await queries.invalidateQueries({ queryKey: KEY });
      await readUsageAgain(queries);
    },
    onError: (error) => {
      if (!(error instanceof ApiError && error.problems.some((each) => each.field))) refused(error);
    },
  });
  const problem = (field: string) => (set.error instanceof ApiError ? (set.error.of(field)?.what ?? null) : null);
  return (
    <form
      className={classes.form}
      aria-label={words.set}
      onSubmit={(event) => {
        event.preventDefault();
        set.mutate();
      }}
    >
      <Select
        label={words.resource}
        data={RESOURCES}
        value={resource}
        onChange={(value) => value !== null && setResource(value as Schema<"PricedResource">)}
        allowDeselect={false}
        w={150}
      />
      {resource === "gpu" && (
        <TextInput
          label={words.gpuType}
          placeholder={words.anyType}
          value={gpuType}
          onChange={(event) => setGpuType(event.currentTarget.value)}
          error={problem("gpuType")}
          w={220}
        />
      )}
      <NumberInput
        label={words.price}
        value={price}
        onChange={setPrice}
        min={0}
        decimalScale={6}
        error={problem("price")}
        w={120}
      />
      <DateTimePicker
        label={words.from}
        placeholder={words.fromHint}
        value={from}
        onChange={setFrom}
        clearable
        error={problem("from")}
        w={260}
      />
      <Button type="submit" disabled={price === "" || isHeld} loading={set.isPending}>
        {words.setButton}
      </Button>
    </form>
  );
}
