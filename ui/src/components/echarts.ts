/** The parts of ECharts that we use, and its two themes. Loaded on demand. */
import { BarChart, LineChart, ScatterChart } from "echarts/charts";
import {
  DataZoomComponent,
  GridComponent,
  LegendComponent,
  MarkLineComponent,
  TooltipComponent,
} from "echarts/components";
import * as echarts from "echarts/core";
import { CanvasRenderer } from "echarts/renderers";

echarts.use([
  BarChart,
  LineChart,
  ScatterChart,
  DataZoomComponent,
  GridComponent,
  LegendComponent,
  MarkLineComponent,
  TooltipComponent,
  CanvasRenderer,
]);

export { echarts };

/** Axes, legend and tooltip in the colours of a scheme. */
export function themed(scheme: "light" | "dark"): object {
  const [text, line, surface, strong] =
    scheme === "dark" ? ["#939DAB", "#2C333D", "#1F252D", "#E9ECF1"] : ["#5E6775", "#DADFE6", "#FFFFFF", "#161A20"];
  const axis = {
    axisLine: { lineStyle: { color: line } },
    axisTick: { show: false },
    axisLabel: { color: text, fontSize: 11 },
    splitLine: { lineStyle: { color: line } },
    nameTextStyle: { color: text, fontSize: 11 },
  };
  return {
    textStyle: { fontFamily: "Inter Variable, system-ui, sans-serif", color: text },
    backgroundColor: "transparent",
    timeAxis: axis,
    valueAxis: axis,
    categoryAxis: { ...axis, splitLine: { show: false } },
    legend: { textStyle: { color: text, fontSize: 12 }, itemWidth: 12, itemHeight: 8, icon: "roundRect" },
    tooltip: {
      backgroundColor: surface,
      borderColor: line,
      textStyle: { color: strong, fontSize: 12 },
      axisPointer: { lineStyle: { color: text }, crossStyle: { color: text } },
    },
  };
}
